"""Ends this process when the one that started it ends."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.5


def tie_to_parent() -> int:
    """Ask Linux for a signal at the parent's end; answer the parent's process id."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    return parent


async def parent_gone(parent: int) -> None:
    """Wait until the process has another parent than it began with."""
    while os.getppid() == parent:  # noqa: ASYNC110 no event tells of it
        await asyncio.sleep(_POLL_S)
