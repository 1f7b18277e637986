"""The verb ``capture``: saves what live nodes answer, reduced to the allow-list."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from common.exits import EXIT_INCONCLUSIVE, EXIT_PASS, ToolError, UsageError
from fleet.captures import Capture, dump_capture
from probes.answering import fleet_of, refuse_lowered_context
from probes.arguments import VerbParser, add_node_options, read_nodes_asked
from probes.verbs.gate import take_look

SUMMARY = "save what live nodes answer"


def main(argv: list[str]) -> int:
    """Save a capture; answer 0 where all nodes answered, else 2. Raises UsageError, ToolError."""
    parser = VerbParser(verb="capture", summary=SUMMARY)
    add_node_options(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--force", action="store_true", help="replace FILE where it exists")
    options = parser.parse_args(argv)
    path = Path(options.output)
    # Asked first, so that nobody waits for nodes and then learns that the file is in the way.
    if not options.force and path.exists():
        raise _in_the_way(path)
    asked = read_nodes_asked(options, os.environ)
    look = asyncio.run(take_look(asked))
    fleet = fleet_of(look.captures, headroom=asked.headroom, advertised=look.advertised)
    refuse_lowered_context(fleet, asked.context, "--context")
    if not look.captures:
        print(f"nothing saved, for no node is known: {'; '.join(look.silent)}", file=sys.stderr)
        return EXIT_INCONCLUSIVE
    capture = Capture(nodes=look.captures, headroom=asked.headroom, context=look.advertised)
    write_private(path, dump_capture(capture), replace=options.force)
    for line in look.silent:
        print(f"not answered: {line}", file=sys.stderr)
    print(f"saved {len(look.captures)} nodes to {path}", file=sys.stderr)
    return EXIT_INCONCLUSIVE if look.silent else EXIT_PASS


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
        raise _in_the_way(path) from None
    except OSError as fault:
        raise ToolError(f"{path} could not be written: {fault.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def _in_the_way(path: Path) -> UsageError:
    return UsageError(f"{path} exists already: name another file, or add --force to replace it")
