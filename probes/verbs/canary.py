"""The verb ``canary``: sends marked prompts as two tenants and judges what comes back."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import replace

from common.exits import UsageError
from common.registry import load_plugins
from fleet.address import policy_from_environment
from fleet.client import OutboundClient
from fleet.contract import FleetError
from probes.answering import exit_code
from probes.arguments import VerbParser
from probes.canary.arguments import RoundsAsked, add_round_options, read_rounds_asked
from probes.canary.contract import RoundOrder, Silent
from probes.canary.results import RoundResult, canary_document, judge_rounds
from probes.canary.rounds import Progress
from probes.canary.runner import run_round
from probes.canary.showing import render_rounds
from probes.canary.surveying import LiveSurveyor
from probes.canary.ways import Gateway, WayIn, marker_secret, pair_of, tokenizer_of, ways_into
from probes.table import render_table

SUMMARY = "send marked prompts as two tenants"

_SEED_BITS = 63


def main(argv: list[str]) -> int:
    """Run the rounds; answer the verdict's exit code. Raises UsageError."""
    load_plugins("probes.plans")
    load_plugins("fleet.engines")
    parser = VerbParser(verb="canary", summary=SUMMARY)
    add_round_options(parser)
    options = parser.parse_args(argv)
    results = asyncio.run(_run_all(read_rounds_asked(options, os.environ)))
    judgement = judge_rounds(results)
    if options.json:
        print(json.dumps(canary_document(results), allow_nan=False))
    else:
        print(render_table(judgement) + "\n" + render_rounds(results))
    return exit_code(judgement.verdict)


class _Teller(Silent):
    """Shows progress on standard error and drops every answer."""

    def __init__(self, title: str) -> None:
        self._title = title

    async def progressed(self, progress: Progress) -> None:
        """Show one line."""
        line = f"{self._title}: {progress.done}/{progress.total} {progress.label}"
        print(line, file=sys.stderr, flush=True)


async def _run_all(asked: RoundsAsked) -> list[RoundResult]:
    try:
        policy = policy_from_environment(os.environ)
    except FleetError as fault:
        raise UsageError(str(fault)) from None
    async with OutboundClient(policy=policy) as client:
        surveyor = LiveSurveyor(
            client=client,
            engine=asked.engine,
            nodes=asked.nodes,
            router_url=asked.target,
            key=asked.key,
            admin_key=asked.admin_key,
            router_key=asked.router_key,
        )
        gateway = Gateway(
            client=client, router_url=asked.target, model=asked.model, node_key=asked.key
        )
        return await _run_rounds(asked, gateway, surveyor)


async def _run_rounds(
    asked: RoundsAsked, gateway: Gateway, surveyor: LiveSurveyor
) -> list[RoundResult]:
    survey = await surveyor.survey()
    ways = ways_into(gateway, way=asked.way, survey=survey, named=asked.nodes)
    tokenizer = tokenizer_of(gateway, survey, asked.nodes)
    base = RoundOrder(
        plan="",
        way=asked.way,
        target="",
        speaker=ways[0].speaker,
        tokenize=tokenizer,
        surveyor=surveyor,
        tenant_a=asked.tenant_a,
        tenant_b=asked.tenant_b,
        secret=marker_secret(asked.tenant_a, asked.tenant_b),
        seed=0,
        grant_tokens=asked.budget_tokens,
        acceptance=asked.acceptance,
        direct=pair_of(gateway, survey=survey, named=asked.nodes),
    )
    results: list[RoundResult] = []
    for plan, way_in in _turns(asked, ways):
        order = replace(
            base,
            plan=plan,
            target=way_in.target,
            speaker=way_in.speaker,
            reached=way_in.reached,
            dialect=way_in.dialect,
            seed=secrets.randbits(_SEED_BITS),
            grant_tokens=_left(asked, results),
        )
        title = f"round {len(results) + 1} ({plan} by {way_in.target})"
        results.append(await run_round(order, _Teller(title)))
    return results


def _turns(asked: RoundsAsked, ways: tuple[WayIn, ...]) -> Iterator[tuple[str, WayIn]]:
    for _ in range(asked.rounds):
        for plan in asked.plans:
            for way_in in ways:
                yield plan, way_in


def _left(asked: RoundsAsked, results: list[RoundResult]) -> int | None:
    """Answer what is left of the grant, which is one for all rounds of a call."""
    if asked.budget_tokens is None:
        return None
    return max(0, asked.budget_tokens - sum(one.spent.tokens for one in results))
