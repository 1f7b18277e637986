"""The verb ``capture``: saves what live nodes answer, reduced to the allow-list."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from common.exits import EXIT_INCONCLUSIVE, EXIT_PASS
from fleet.captures import Capture, dump_capture
from probes.answering import fleet_of, refuse_lowered_context
from probes.arguments import VerbParser, add_node_options, read_nodes_asked
from probes.artefacts import in_the_way, write_private
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
        raise in_the_way(path)
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
