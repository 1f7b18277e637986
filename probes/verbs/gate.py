"""The verb ``gate``: reads live nodes and judges whether a deploy may go on."""

from __future__ import annotations

import asyncio
import os
import sys

from common.exits import UsageError
from fleet.address import policy_from_environment
from fleet.client import OutboundClient
from fleet.contract import FleetError
from probes.answering import exit_code, fleet_of, refuse_lowered_context, render
from probes.arguments import NodesAsked, VerbParser, add_node_options, read_nodes_asked
from probes.asking import Look, look_at_nodes
from probes.judge import judge_fleet

SUMMARY = "judge live nodes before a deploy"


def main(argv: list[str]) -> int:
    """Judge the nodes that are named; answer the verdict's exit code. Raises UsageError."""
    parser = VerbParser(verb="gate", summary=SUMMARY)
    add_node_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(argv)
    asked = read_nodes_asked(options, os.environ)
    look = asyncio.run(take_look(asked))
    fleet = fleet_of(look.captures, headroom=asked.headroom, advertised=look.advertised)
    refuse_lowered_context(fleet, asked.context, "--context")
    judgement = judge_fleet(fleet, also=look.problems)
    print(render(judgement, as_json=options.json))
    return exit_code(judgement.verdict)


async def take_look(asked: NodesAsked) -> Look:
    """Answer what the nodes say. Raises UsageError where the address policy cannot be read."""
    try:
        policy = policy_from_environment(os.environ)
    except FleetError as fault:
        raise UsageError(str(fault)) from None
    async with OutboundClient(policy=policy) as client:
        return await look_at_nodes(client, asked, tell=_tell)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
