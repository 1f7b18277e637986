"""Becomes a child that cannot outlive its parent; run as a script, before the real program.

A function run between fork and exec would do the same in fewer lines, but it runs Python in a
half-made process. This is a process of its own and uses the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: Source: linux/prctl.h.
PR_SET_PDEATHSIG = 1
USAGE = "child.py PARENT_PID DEATH_SIGNAL UID GID PROGRAM [ARGUMENT]..."


def main(argv: list[str]) -> None:
    """Drop rights, tie this process to its parent and become the program. Raises OSError."""
    if len(argv) < 5:  # noqa: PLR2004  # what USAGE counts up
        raise SystemExit(USAGE)
    parent, death_signal, uid, gid = (int(word) for word in argv[:4])
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After the change of user, since the kernel clears the wish when credentials change. It is
    # kept over exec as long as the program is not set-user-id. It comes when the parent's THREAD
    # ends, so children are started from the main thread only.
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    # The parent may have gone before the wish was made.
    if os.getppid() != parent:
        raise SystemExit("the parent is gone")
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execv(argv[4], argv[4:])  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
