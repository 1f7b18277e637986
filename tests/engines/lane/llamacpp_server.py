"""Runs llama.cpp's own HTTP server; runs with the Python of that engine, not with ours.

Usage: ``python llamacpp_server.py WEIGHTS CONTEXT SLOTS PORT POOL``, POOL being unified or split.
"""

from __future__ import annotations

import signal
import sys

from xllamacpp import CommonParams, Server  # type: ignore[import-not-found]


def serve(weights: str, *, context: int, slots: int, port: int, is_unified: bool) -> None:
    """Serve until a signal ends the process."""
    settings = CommonParams()
    settings.model.path = weights
    settings.model_alias = {"tiny"}
    settings.n_ctx = context
    settings.n_parallel = slots
    settings.kv_unified = is_unified
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.endpoint_slots = True
    settings.endpoint_metrics = True
    # Its threads spin: more of them than free cores make it a hundred times slower.
    settings.cpuparams.n_threads = 1
    settings.cpuparams_batch.n_threads = 1
    server = Server(settings)
    print(f"serving at {server.listening_address}", flush=True)  # noqa: T201 - its log
    signal.pause()


if __name__ == "__main__":
    serve(
        sys.argv[1],
        context=int(sys.argv[2]),
        slots=int(sys.argv[3]),
        port=int(sys.argv[4]),
        is_unified=sys.argv[5] == "unified",
    )
