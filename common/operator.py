"""Who sits at the shell, as the operating system knows it."""

from __future__ import annotations

import os
import pwd


def operator_name() -> str:
    """Answer the operating-system user of this process, marked as the shell's.

    Taken from the user database: a variable of the environment can say anything.
    """
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return f"{name} (shell)"
