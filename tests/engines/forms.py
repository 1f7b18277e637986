"""Asks an engine in every form from inside its room; runs there as a program of its own.

Usage: ``python -m tests.engines.forms ENGINE URL TOO_MANY_TOKENS``; it ends with 0 where what came
is what had to come.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field

from fleet.client import OutboundClient
from fleet.contract import Api, Completion, Form
from fleet.live import NodeAddress
from fleet.reading import Role
from fleet.speaking import node_speaker
from fleet.tokenizing import chat_length, detokenize, tokenize

PROMPT = "The capital of France is"
PATIENCE_S = 300.0
NEW = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Asks one node of an engine in many forms."""

    client: OutboundClient = field(repr=False)
    node: NodeAddress
    model: str

    async def ask(self, form: Form, text: str, ids: tuple[int, ...] = ()) -> Completion:
        speaker = node_speaker(self.client, self.node, node_key="", model=self.model)
        return await speaker.ask(
            token_ids=ids,
            max_new_tokens=NEW,
            tenant_key="",
            timeout_s=PATIENCE_S,
            form=form,
            text=text,
        )

    async def check(self, api: Api, *, over: int) -> None:
        """Hold every form of one API against the others; ``over`` tokens are too many."""
        ids = await tokenize(self.client, self.node, PROMPT)
        assert await detokenize(self.client, self.node, ids) == PROMPT
        is_chat = api is Api.CHAT
        length = await chat_length(self.client, self.node, PROMPT) if is_chat else len(ids)
        answers = [
            await self.ask(
                Form(api=api, is_streamed=is_streamed, wants_logprobs=wants_logprobs), PROMPT, ids
            )
            for is_streamed in (False, True)
            for wants_logprobs in (False, True)
        ]
        whole = answers[0]
        for one in answers:
            assert (one.status, one.error, one.answer) == (200, "", whole.answer)
            assert (one.prompt_tokens, one.completion_tokens) == (length, NEW)
            assert (one.finish, one.model, bool(one.answer_id)) == ("length", self.model, True)
        assert [one.frames > 1 for one in answers] == [False, False, True, True]
        assert [one.first_token_s is not None for one in answers] == [False, False, True, True]
        assert len({one.answer_id for one in answers}) == len(answers)
        for is_streamed in (False, True):
            refused = await self.ask(Form(api=api, is_streamed=is_streamed), "word " * over)
            assert (refused.said_status, refused.is_refused) == (400, True)
            assert "context" in refused.error


async def check_salts(asker: Asker) -> None:
    """A salt reaches the engine: it refuses none that is good, and shows the ids of its answer."""
    form = Form(api=Api.COMPLETIONS, cache_salt="a-salt")
    salted = await asker.ask(form, PROMPT)
    assert (salted.status, salted.error, len(salted.token_ids)) == (200, "", NEW)


async def main(engine: str, url: str, over: int) -> None:
    """Ask by both APIs that every engine has."""
    async with OutboundClient() as client:
        node = NodeAddress(name=engine, url=url, role=Role.UNIFIED, engine=engine)
        asker = Asker(client=client, node=node, model="tiny")
        for api in (Api.COMPLETIONS, Api.CHAT):
            await asker.check(api, over=over)
        if engine == "vllm":
            await check_salts(asker)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
