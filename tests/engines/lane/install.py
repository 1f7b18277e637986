"""Installs engines at pinned versions, once; what is there already and unchanged is left alone."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engines.lane.folders import HERE, PINS

#: Debian's packages with the libraries that Mooncake is linked against, also when it uses TCP.
RDMA_LIBRARY = "libibverbs.so.1"
RDMA_PACKAGES = ("libibverbs1", "libnl-3-200", "libnl-route-3-200", "librdmacm1", "libnuma1")
#: Largest of the engines, installed, with room for downloads. Unit: bytes.
LEAST_FREE = 5 * 1024**3


class CannotInstall(Exception):
    """An engine cannot be installed here; the text says why, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHome:
    """The folder of one engine: its virtual environment, overlays of releases, and models."""

    root: Path
    engine: str

    @property
    def folder(self) -> Path:
        """Answer where all of it is."""
        return self.root / self.engine

    @property
    def python(self) -> Path:
        """Answer the engine's own Python."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def system_libraries(self) -> Path:
        """Answer where libraries are unpacked that the system does not have."""
        return self.folder / "system"

    def overlay(self, version: str) -> Path:
        """Answer the folder whose packages take the place of those in the environment."""
        return self.folder / f"site-{version}"

    def model(self, version: str, context: int) -> Path:
        """Answer the folder of the tiny model for one release and context."""
        return self.folder / "models" / f"{version}-{context}"


def install_sglang(root: Path, version: str) -> EngineHome:
    """Install one release of SGLang, the router and Mooncake. Raises CannotInstall."""
    home = EngineHome(root=root, engine="sglang")
    with _alone(home):
        _once(home, "venv", ("torch", "sglang"), lambda: _make_environment(home, "sglang"))
        if not _has_library(RDMA_LIBRARY):
            _once(home, "system", (), lambda: _unpack_libraries(home))
        names = (f"sglang-{version}",)
        _once(home, names[0], names, lambda: _make_overlay(home, version))
    return home


def install_vllm(root: Path) -> EngineHome:
    """Install vLLM's CPU build. Raises CannotInstall."""
    home = EngineHome(root=root, engine="vllm")
    with _alone(home):
        _once(home, "venv", ("torch", "vllm"), lambda: _make_environment(home, "vllm"))
    return home


def install_vllm_pair(root: Path) -> EngineHome:
    """Install vLLM's CPU build and what moves pages between two of them. Raises CannotInstall."""
    home = install_vllm(root)
    with _alone(home):
        pins = PINS / "vllm-pair.txt"
        names = ("torch", "vllm", "vllm-pair")
        _once(home, "pair", names, lambda: _pip(home, "--require-hashes", "-r", pins))
    return home


def install_llamacpp(root: Path) -> EngineHome:
    """Install llama.cpp's server and a small model that speaks. Raises CannotInstall."""
    home = EngineHome(root=root, engine="llamacpp")
    with _alone(home):
        _once(home, "venv", ("llamacpp",), lambda: _make_environment(home, "llamacpp", torch=False))
    return home


def pinned_version(engine: str, package: str) -> str:
    """Answer the version at which a package is pinned. Raises CannotInstall."""
    for line in (PINS / f"{engine}.txt").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition("==")
        if name == package:
            return rest.split()[0]
    raise CannotInstall(f"{package} is not pinned for {engine}")


def make_model(home: EngineHome, version: str, context: int, environment: dict[str, str]) -> Path:
    """Write the tiny model with the engine's own libraries, once. Raises CannotInstall."""
    folder = home.model(version, context)
    with _alone(home):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
                command = (home.python, HERE / "tiny_model.py", draft, context)
                _run(*command, environment=environment)
                shutil.copytree(draft, folder)
    return folder


@contextmanager
def _alone(home: EngineHome) -> Iterator[None]:
    """Keep other test runs away from this engine's folder meanwhile."""
    home.folder.mkdir(parents=True, exist_ok=True)
    with (home.folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _once(home: EngineHome, name: str, pins: tuple[str, ...], work: Callable[[], None]) -> None:
    """Do a part of the installation unless it was done with these very pins."""
    texts = [(PINS / f"{one}.txt").read_bytes() for one in pins]
    wanted = hashlib.sha256(b"\n".join((platform.python_version().encode(), *texts))).hexdigest()
    stamp = home.folder / f".{name}.done"
    if stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
        return
    stamp.unlink(missing_ok=True)
    _check_machine(home)
    progress = f"pagewarden: installing {home.engine} ({name}) for the tests"
    print(progress, file=sys.stderr)  # noqa: T201 - it takes minutes
    work()
    stamp.write_text(wanted, encoding="ascii")


def _check_machine(home: EngineHome) -> None:
    """Raise CannotInstall where the pinned wheels cannot work."""
    if sys.version_info[:2] != (3, 11) or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise CannotInstall("the pinned engines need CPython 3.11 on Linux x86_64")
    free = shutil.disk_usage(home.folder).free
    if free < LEAST_FREE:
        raise CannotInstall(
            f"{LEAST_FREE >> 20} MiB are wanted for an engine, {free >> 20} MiB are free in "
            f"{home.root}: name another folder with PAGEWARDEN_ENGINES"
        )


def _make_environment(home: EngineHome, engine: str, *, torch: bool = True) -> None:
    venv = home.folder / "venv"
    shutil.rmtree(venv, ignore_errors=True)
    _run(sys.executable, "-m", "venv", venv)
    if torch:
        # Its CPU build is found by the machine's own settings of pip; only its version is pinned.
        _pip(home, "-r", PINS / "torch.txt")
    _pip(home, "--require-hashes", "-r", PINS / f"{engine}.txt")


def _make_overlay(home: EngineHome, version: str) -> None:
    folder = home.overlay(version)
    shutil.rmtree(folder, ignore_errors=True)
    _pip(home, "--require-hashes", "--target", folder, "-r", PINS / f"sglang-{version}.txt")


def _pip(home: EngineHome, *words: object) -> None:
    """Install wheels only: nothing that is downloaded is run on the way. Raises CannotInstall."""
    fixed = ("-m", "pip", "install", "-qq", "--no-deps", "--only-binary", ":all:")
    _run(home.python, *fixed, *words)


def _unpack_libraries(home: EngineHome) -> None:
    """Unpack Debian's RDMA libraries beside the engine; nothing is installed on the system."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise CannotInstall(f"Mooncake wants {RDMA_LIBRARY}: install your system's libibverbs")
    with tempfile.TemporaryDirectory(dir=home.folder) as name:
        folder = Path(name)
        try:
            _run("apt-get", "-qq", "download", *RDMA_PACKAGES, folder=folder)
        except CannotInstall:
            _run("apt-get", "-qq", "update")
            _run("apt-get", "-qq", "download", *RDMA_PACKAGES, folder=folder)
        for package in folder.glob("*.deb"):
            _run("dpkg-deb", "-x", package, home.system_libraries)


def _has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _run(
    *words: object, folder: Path | None = None, environment: dict[str, str] | None = None
) -> None:
    """Run a command, its output on standard error. Raises CannotInstall."""
    command = [str(word) for word in words]
    env = environment or {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        subprocess.run(command, check=True, cwd=folder, env=env, stdout=2)  # noqa: S603 - our words
    except (OSError, subprocess.CalledProcessError) as fault:
        raise CannotInstall(f"{Path(command[0]).name} failed: {fault}") from None
