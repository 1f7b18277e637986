"""A lane of real SGLang: prefill, decode and sglang-router, with pools of chosen sizes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.engines.lane.folders import SHIM
from tests.engines.lane.install import EngineHome, install_sglang, make_model
from tests.engines.lane.servers import Lane, Server, clean_environment, running

ROUTER_PORT, PREFILL_PORT, DECODE_PORT, BOOTSTRAP_PORT, METRICS_PORT = range(21_000, 21_005)
#: SGLang reserves 512 tokens by default: half of a pool of 1,024, so that much would wait for ever.
RESERVE = 16
MODEL = "tiny"
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a lane is started with; both engines take ``flags``. Unit: tokens."""

    version: str
    prefill_pool: int
    decode_pool: int
    context: int
    flags: tuple[str, ...] = ()


def sglang_servers(root: Path, figures: Figures, *, logs: Path) -> AbstractContextManager[Lane]:
    """Answer a lane to enter; engines are installed first. Raises CannotInstall, NoRoom, NotUp."""
    home = install_sglang(root, figures.version)
    environment = _environment(home, figures.version)
    model = make_model(home, figures.version, figures.context, environment)
    prefill = _engine(
        home,
        (
            *_of(model, PREFILL_PORT, figures.prefill_pool),
            *_prefill_words(),
            *figures.flags,
        ),
        environment,
        name="prefill",
        port=PREFILL_PORT,
    )
    decode = _engine(
        home,
        (*_of(model, DECODE_PORT, figures.decode_pool), *_decode_words(), *figures.flags),
        environment,
        name="decode",
        port=DECODE_PORT,
    )
    urls = {"router": url(ROUTER_PORT), "prefill": url(PREFILL_PORT), "decode": url(DECODE_PORT)}
    servers = (prefill, decode, _router(home, environment))
    return running(servers, urls=urls, logs=logs, model=MODEL)


def url(port: int) -> str:
    """Answer the address of a port inside the room."""
    return f"http://{_HOST}:{port}"


def _environment(home: EngineHome, version: str) -> dict[str, str]:
    libraries = home.system_libraries
    return {
        **clean_environment(),
        "PYTHONPATH": f"{SHIM}:{home.overlay(version)}",
        "LD_LIBRARY_PATH": f"{libraries}/usr/lib/x86_64-linux-gnu:{libraries}/lib/x86_64-linux-gnu",
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_HOST_IP": _HOST,
        "HOST_IP": _HOST,
        "GLOO_SOCKET_IFNAME": "lo",
    }


def _engine(
    home: EngineHome,
    words: tuple[str, ...],
    environment: dict[str, str],
    *,
    name: str,
    port: int,
) -> Server:
    command = (str(home.python), "-m", "sglang.launch_server", *words)
    return Server(name=name, command=command, environment=environment, ready=f"{url(port)}/health")


def _of(model: Path, port: int, pool: int) -> tuple[str, ...]:
    words = {
        "--model-path": str(model),
        "--served-model-name": MODEL,
        "--host": _HOST,
        "--port": str(port),
        "--device": "cpu",
        "--attention-backend": "torch_native",
        "--mem-fraction-static": "0.1",
        "--max-total-tokens": str(pool),
        "--disaggregation-transfer-backend": "mooncake_tcp",
    }
    flat = tuple(word for pair in words.items() for word in pair)
    # Without the last, an idle scheduler keeps a whole core busy.
    return (*flat, "--enable-metrics", "--sleep-on-idle")


def _prefill_words() -> tuple[str, ...]:
    bootstrap = ("--disaggregation-bootstrap-port", str(BOOTSTRAP_PORT))
    return ("--disaggregation-mode", "prefill", *bootstrap)


def _decode_words() -> tuple[str, ...]:
    # What decode takes by itself for backing up retracted requests wants 10 GiB of free memory.
    backup = ("--disaggregation-decode-retraction-backup", "cpu_tensor")
    reserve = ("--num-reserved-decode-tokens", str(RESERVE))
    return ("--disaggregation-mode", "decode", *backup, *reserve)


def _router(home: EngineHome, environment: dict[str, str]) -> Server:
    command = (
        *(str(home.python), "-m", "sglang_router.launch_router", "--pd-disaggregation"),
        *("--prefill", url(PREFILL_PORT), str(BOOTSTRAP_PORT), "--decode", url(DECODE_PORT)),
        *("--host", _HOST, "--port", str(ROUTER_PORT), "--worker-startup-check-interval", "1"),
        *("--prometheus-host", _HOST, "--prometheus-port", str(METRICS_PORT)),
    )
    return Server(
        name="router",
        command=command,
        environment=environment,
        ready=f"{url(ROUTER_PORT)}/readiness",
    )
