"""Files that verbs leave behind: written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from common.exits import ToolError, UsageError


def read_small(path: Path, *, what: str, largest_bytes: int) -> bytes:
    """Answer the bytes of a file that a person named. Raises UsageError."""
    try:
        with path.open("rb") as file:
            text = file.read(largest_bytes + 1)
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is no name of a file"
        raise UsageError(f"{what} {path} cannot be read: {why}") from None
    if len(text) > largest_bytes:
        raise UsageError(f"{what} {path} is larger than {largest_bytes:,} bytes")
    return text


def write_report(path: Path, text: str) -> None:
    """Write a file that a CI system collects, as others may read. Raises UsageError."""
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is no name of a file"
        raise UsageError(f"{path} cannot be written: {why}") from None


def write_private(path: Path, text: str, *, replace: bool) -> None:
    """Write a file that only its owner reads, whole or not at all. Raises UsageError, ToolError."""
    try:
        # It makes a file of mode 0600 beside the target, so that moving it there is atomic.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as fault:
        raise UsageError(f"{path} cannot be written: {fault.strerror}") from None
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not replace:
            # Taking the name first never replaces what somebody made in the meantime.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        draft.replace(path)
    except FileExistsError:
        raise in_the_way(path) from None
    except OSError as fault:
        raise ToolError(f"{path} could not be written: {fault.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def in_the_way(path: Path) -> UsageError:
    """Answer the error of a file that would be replaced."""
    return UsageError(f"{path} exists already: name another file, or add --force to replace it")
