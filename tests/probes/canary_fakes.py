"""A small paged pair in memory that speaks by the contract, and leaks where it has no guard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.contract import PLAIN, Completion, Form
from fleet.reading import Load, Reading, Role, Worker
from probes.canary.contract import RoundOrder
from probes.canary.rounds import Progress, Row, Tenant, Way
from probes.canary.survey import Survey
from tests.probes.builders import decode, prefill

PREFILL_URL = "http://127.0.0.1:21002"
DECODE_URL = "http://127.0.0.1:21003"
ROUTER_URL = "http://127.0.0.1:21000"

_ASK = re.compile(r"Repeat this code exactly: ([0-9A-Z]+)")
_LENGTH_TEXT = (
    "Input length ({n} tokens) exceeds the maximum allowed length ({m} tokens). "
    "Use a shorter input or enable --allow-auto-truncate."
)


async def tokenize(text: str) -> Sequence[int]:
    """Answer one token a byte."""
    return list(text.encode())


@dataclass(kw_only=True)
class FakePair:
    """One token a character; decode's pages keep what was in them; the answer copies pages.

    ``style`` garbles what comes from pages that the request did not write. Unit: tokens.
    """

    prefill_pool: int = 20_480
    decode_pool: int = 20_480
    context: int = 16_384
    page_size: int = 64
    reserve: int = 512
    is_guarded: bool = False
    is_garbled: bool = False
    is_mute: bool = False
    version: str = "0.5.19"
    hangs_over_limit: bool = False
    lies_about_tokens: bool = False
    miscounts_from: int | None = None
    label: str = "router"
    asked: list[tuple[str, int, int]] = field(default_factory=list, repr=False)
    forms: list[Form] = field(default_factory=list, repr=False)
    on_ask: Callable[[int], None] | None = None
    spoils: Callable[[FakePair, str], bool] | None = None
    says_more: Callable[[str], str] | None = None
    pause_s: float = 0.0
    seconds_said: float = 0.05
    under_way: int = 0
    most_under_way: int = 0
    texts: list[str] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._slots = [""] * self.decode_pool
        self._next_page = 0

    @property
    def prefill_limit(self) -> int:
        return min(self.context, self.prefill_pool) - 6

    @property
    def decode_limit(self) -> int:
        return min(self.context, self.decode_pool) - 6

    def readings(self) -> tuple[Reading, ...]:
        idle: dict[str, Any] = {"running": 0, "waiting": 0, "queues": {"waiting": 0}}
        figures: dict[str, Any] = {
            "context": self.context,
            "version": self.version,
            "page_size": self.page_size,
        }
        return (
            prefill(
                pool=self.prefill_pool,
                url=PREFILL_URL,
                load=Load(free_tokens=self.prefill_pool, **idle),
                counters={"requests": float(len(self.asked))},
                **figures,
            ),
            decode(
                pool=self.decode_pool,
                url=DECODE_URL,
                reserve=self.reserve,
                load=Load(free_tokens=self.decode_pool, **idle),
                counters={"requests": float(len(self.asked))},
                **figures,
            ),
        )

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
        self.forms.append(form)
        text, count = text or bytes(token_ids).decode(), len(token_ids)
        self.asked.append((tenant_key, count, max_new_tokens))
        if self.on_ask is not None:
            self.on_ask(len(self.asked))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(self.pause_s)
            return self._reply(text, count, max_new_tokens, timeout_s)
        finally:
            self.under_way -= 1
            self.texts.append(text)

    def _reply(self, text: str, count: int, max_new_tokens: int, timeout_s: float) -> Completion:
        refusal = self._refusal(count, max_new_tokens)
        if refusal:
            return Completion(status=400, text=refusal, seconds=0.01)
        if self.prefill_limit <= count and (self.is_guarded or self.hangs_over_limit):
            return Completion(error=f"no answer within {timeout_s:g} s", seconds=timeout_s)
        answer = self._generate(text, count)[:max_new_tokens]
        if self.spoils is not None and self.spoils(self, text):
            answer = "~" * len(answer)
        if self.says_more is not None:
            answer = f"{answer} {self.says_more(text)}"
        return Completion(
            status=200,
            text=answer,
            answer=answer,
            prompt_tokens=1 if self._is_miscounted(count) else count,
            completion_tokens=max_new_tokens,
            finish="length",
            seconds=self.seconds_said,
        )

    def _is_miscounted(self, count: int) -> bool:
        is_long = self.miscounts_from is not None and count >= self.miscounts_from
        return self.lies_about_tokens or is_long

    def _refusal(self, count: int, new: int) -> str:
        if count >= self.context:
            return (
                f"The input ({count} tokens) is longer than the model's context length "
                f"({self.context} tokens)."
            )
        if count + new > self.context:
            return (
                "Requested token count exceeds the model's maximum context length of "
                f"{self.context} tokens."
            )
        if count >= self.decode_limit:
            return _LENGTH_TEXT.format(n=count, m=self.decode_limit)
        return ""

    def _generate(self, text: str, count: int) -> str:
        assert count + self.reserve <= self.decode_pool, "this length blocks the queue for ever"
        pages = -(-count // self.page_size)
        total = self.decode_pool // self.page_size
        taken = [(self._next_page + index) % total for index in range(pages)]
        self._next_page = (self._next_page + pages) % total
        slots = [page * self.page_size + at for page in taken for at in range(self.page_size)]
        sent = text if count < self.prefill_limit else text[:1]
        for slot, letter in zip(slots, sent, strict=False):
            self._slots[slot] = letter
        seen = [self._slots[slot] for slot in slots[:count]]
        if self.is_garbled:
            seen = [*seen[: len(sent)], *("#" for _ in seen[len(sent) :])]
        return self._speak("".join(seen))

    def _speak(self, seen: str) -> str:
        if self.is_mute:
            return "la " * 100
        asks = _ASK.findall(seen)
        start = f"{asks[-1]}\n" if asks else ""
        return start + (seen or " ") * 3


@dataclass(kw_only=True)
class FakeSurveyor:
    """Reads a fake pair; ``change`` alters what the second and later looks see."""

    pair: FakePair
    is_listed: bool = True
    listing_problem: str = ""
    change: Callable[[Survey], Survey] | None = None
    looks: int = 0

    async def survey(self) -> Survey:
        self.looks += 1
        prefill_node, decode_node = self.pair.readings()
        workers = (
            Worker(worker_id="1", url=PREFILL_URL, role=Role.PREFILL, is_healthy=True),
            Worker(worker_id="2", url=DECODE_URL, role=Role.DECODE, is_healthy=True),
        )
        survey = Survey(
            readings=(prefill_node, decode_node),
            listed=None if self.listing_problem else workers if self.is_listed else (),
            listing_problem=self.listing_problem,
            named=(),
        )
        return self.change(survey) if self.change is not None and self.looks > 1 else survey


@dataclass(kw_only=True)
class Recorder:
    """An observer that remembers everything and stops after so many rows."""

    stops_after: int | None = None
    rows: list[Row] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    steps: list[Progress] = field(default_factory=list)

    async def is_stopped(self) -> bool:
        return self.stops_after is not None and len(self.rows) >= self.stops_after

    async def progressed(self, progress: Progress) -> None:
        self.steps.append(progress)

    async def answered(self, row: Row, text: str) -> None:
        self.rows.append(row)
        self.texts.append(text)


def make_order(
    pair: FakePair,
    *,
    surveyor: FakeSurveyor | None = None,
    tokenizer: Callable[[str], Awaitable[Sequence[int]]] = tokenize,
    **over: object,
) -> RoundOrder:
    """Answer an order through the router with a grant that covers any round here."""
    parts: dict[str, object] = {
        "plan": "boundary",
        "way": Way.ROUTER,
        "target": "router",
        "speaker": pair,
        "tokenize": tokenizer,
        "surveyor": surveyor or FakeSurveyor(pair=pair),
        "tenant_a": Tenant(number=1, name="tenant-a", key="key-a"),
        "tenant_b": Tenant(number=2, name="tenant-b", key="key-b"),
        "secret": b"the secret of these tests",
        "seed": 7,
        "grant_tokens": 10_000_000,
    }
    return RoundOrder(**(parts | over))  # type: ignore[arg-type]
