"""A reference round over a vLLM pair whose lease runs out between the two sides; runs in its room.

Usage: ``python -m tests.engines.leased_round PREFILL DECODE WAIT_S``; 0 waits: nothing is
late. It prints the verdicts as JSON. A router that is slow between its two requests does the same.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from common.registry import load_plugins
from fleet.client import OutboundClient
from fleet.contract import PLAIN, Api, Completion, Form
from fleet.dialects import DIALECTS
from fleet.live import NodeAddress
from fleet.reading import Role
from fleet.speaking import node_speaker
from fleet.tokenizing import tokenize
from fleet.vllm_pair import VllmPairSpeaker
from probes.canary.contract import RoundOrder
from probes.canary.results import canary_document
from probes.canary.rounds import Tenant, Way
from probes.canary.runner import run_round
from probes.canary.survey import Survey
from probes.canary.surveying import LiveSurveyor
from tests.engines.lane.vllm import MODEL

#: A prompt is sent alone twice; the third time is the one that is compared with those.
COMPARED = 3
#: So many prompts of this length overwrite what the lease let go of.
OTHERS, OTHER_TOKENS = 4, 1_500
COMPLETIONS = Form(api=Api.COMPLETIONS)


@dataclass(kw_only=True)
class LateSpeaker:
    """Speaks to the pair; the first time that a prompt is compared, decode is asked too late."""

    pair: VllmPairSpeaker
    wait_s: float
    times: Counter[tuple[int, ...]] = field(default_factory=Counter)

    @property
    def label(self) -> str:
        return self.pair.label

    async def ask(  # noqa: PLR0913 - as the protocol
        self,
        *,
        token_ids: Sequence[int],
        max_new_tokens: int,
        tenant_key: str,
        timeout_s: float,
        form: Form = PLAIN,
        text: str = "",
    ) -> Completion:
        self.times[tuple(token_ids)] += 1
        is_late = self.wait_s > 0 and self.times[tuple(token_ids)] == COMPARED
        speaker = replace(self.pair, between=self.overwrite) if is_late else self.pair
        return await speaker.ask(
            token_ids=token_ids,
            max_new_tokens=max_new_tokens,
            tenant_key=tenant_key,
            timeout_s=timeout_s,
            form=form,
            text=text,
        )

    async def overwrite(self) -> None:
        """Wait until the lease is over, and let others write into the same pages."""
        await asyncio.sleep(self.wait_s)
        alone = node_speaker(self.pair.client, self.pair.prefill, node_key="", model=MODEL)
        for number in range(OTHERS):
            ids = [20 + (number + 3) * place % 250 for place in range(OTHER_TOKENS)]
            came = await alone.ask(
                token_ids=ids, max_new_tokens=1, tenant_key="", timeout_s=60.0, form=COMPLETIONS
            )
            assert came.status == HTTPStatus.OK, came.error


@dataclass(kw_only=True)
class NoRouter:
    """Reads the pair; nobody else is in the room, so no router lists it."""

    surveyor: LiveSurveyor

    async def survey(self) -> Survey:
        return replace(await self.surveyor.survey(), listed=())


async def main(prefill: NodeAddress, decode: NodeAddress, wait_s: float) -> None:
    load_plugins("fleet.engines")
    async with OutboundClient() as client:
        pair = VllmPairSpeaker(client=client, prefill=prefill, decode=decode, model=MODEL)

        async def ids_of(text: str) -> Sequence[int]:
            return await tokenize(client, prefill, text)

        surveyor = LiveSurveyor(
            client=client, engine="vllm", nodes=(prefill, decode), router_url=""
        )
        order = RoundOrder(
            plan="reference",
            way=Way.PAIR,
            target=pair.label,
            speaker=LateSpeaker(pair=pair, wait_s=wait_s),
            tokenize=ids_of,
            surveyor=NoRouter(surveyor=surveyor),
            tenant_a=Tenant(number=1, name="tenant-a", key="a"),
            tenant_b=Tenant(number=2, name="tenant-b", key="b"),
            secret=b"of a lane",
            seed=7,
            reached=(prefill.url, decode.url),
            dialect=DIALECTS["vllm"],
        )
        print(json.dumps(canary_document([await run_round(order)])))  # noqa: T201 - its answer


if __name__ == "__main__":
    sides = zip((Role.PREFILL, Role.DECODE), sys.argv[1:3], strict=True)
    nodes = [
        NodeAddress(name=f"{role}-1", url=url, role=role, engine="vllm") for role, url in sides
    ]
    asyncio.run(main(nodes[0], nodes[1], float(sys.argv[3])))
