"""Slots and pool of a llama.cpp server.

Each slot takes one request. Apart from each other they hold ``n_ctx`` tokens each; unified they
share one pool of ``n_ctx``, although every slot still shows that figure for itself. No answer tells
which of both it is, so with several slots the pool rests on a person's word or the start-up log.
Source: recorded with four unified slots of 1,024: four prompts of 450 tokens at once all failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fleet.contract import NodeCapture
from fleet.engines.documents import LARGEST_FIGURE, as_list, as_object, figure
from fleet.engines.loglines import lines_of
from fleet.reading import Attestation, Rank

#: Name under which a person vouches for how the server was started: true or false.
UNIFIED: Final = "kv_unified"
_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}
_LOGGED: Final = re.compile(r"\bkv_unified\s{0,20}=\s{0,3}'?(true|false)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """What the slots amount to, in tokens; None where it cannot be known, and why."""

    context: int | None
    pool: int | None
    count: int | None
    incomplete: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    beside: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """Answer the pool as that of the only rank there is."""
        return (Rank(index=0, token_capacity=self.pool),)

    def free_beside(self, running: int | None) -> int | None:
        """Answer what idle slots hold, or None where slots may take from each other.

        What an idle slot still remembers of an earlier prompt makes room for the next one.
        """
        if running is None or self.pool is None or not self.count:
            return None
        size = self.beside.get("slot_context")
        if size is None or self.pool != size * self.count:
            return None
        return max(0, self.pool - running * int(size))


def read_slots(
    capture: NodeCapture,
    *,
    settings: Mapping[str, object],
    slots: Sequence[object],
    models: Mapping[str, object],
    vouched: Attestation | None,
) -> Slots:
    """Answer the context of a slot and the pool of all, with what is doubtful about them."""
    sizes = [as_object(slot).get("n_ctx") for slot in slots]
    cards = [as_object(as_object(card).get("meta")) for card in as_list(models.get("data"))]
    shown = [as_object(settings.get("default_generation_settings")).get("n_ctx"), *sizes]
    shown += [card.get("n_ctx") for card in cards]
    known = [number for one in shown if (number := figure(one)) is not None]
    doubts = _doubts(shown, known)
    total = figure(settings.get("total_slots"))
    count = total or (len(slots) or None)
    if None not in {total, figure(len(slots))} and total != len(slots):
        doubts.append(f"ranks: /props names {total} slots and /slots lists {len(slots)}")
        count = None
    if not known or count is None:
        doubts.append("ranks: it does not tell its slots and what each of them takes")
        return Slots(
            context=max(known, default=None), pool=None, count=count, incomplete=(*doubts,)
        )
    return _pooled(capture, vouched, doubts, size=min(known), count=count, context=max(known))


def _doubts(shown: list[object], known: list[int]) -> list[str]:
    doubts = []
    if any(one is not None and figure(one) is None for one in shown):
        doubts.append("context: a slot's n_ctx is no length")
    if len({*known}) > 1:
        both = " and ".join(f"{one:,}" for one in sorted({*known}))
        doubts.append(f"context: its answers name different contexts: {both}")
    return doubts


def _pooled(  # noqa: PLR0913 - keyword-only from the fourth on
    capture: NodeCapture,
    vouched: Attestation | None,
    doubts: list[str],
    *,
    size: int,
    count: int,
    context: int,
) -> Slots:
    whole = figure(size * count)
    beside: dict[str, int | float] = {"slots": count, "slot_context": size}
    if count == 1:
        return Slots(context=context, pool=size, count=1, incomplete=(*doubts,), beside=beside)
    is_unified, source = _how_started(capture, vouched)
    if is_unified is None or whole is None:
        if whole is not None and whole <= LARGEST_FIGURE:
            beside |= {"pool_if_unified": size, "pool_if_apart": whole}
        doubts.append(
            f"ranks: its {count} slots may share one pool of {size:,} tokens (--kv-unified), and "
            f"no answer tells: vouch for {UNIFIED}, true or false"
        )
        return Slots(context=context, pool=None, count=count, incomplete=(*doubts,), beside=beside)
    return Slots(
        context=context,
        pool=size if is_unified else whole,
        count=count,
        incomplete=(*doubts,),
        notes=(f"pool: {source}",),
        beside=beside,
    )


def _how_started(capture: NodeCapture, vouched: Attestation | None) -> tuple[bool | None, str]:
    """Answer whether the slots are unified and who says so; two who differ say nothing."""
    logged = {
        _WORDS[match[1]] for line in lines_of(capture.logs) for match in _LOGGED.finditer(line)
    }
    word = _WORDS.get(vouched.value.strip().lower()) if vouched is not None else None
    said = logged | ({word} if word is not None else set())
    if len(said) != 1:
        return None, ""
    (answer,) = said
    how = "true" if answer else "false"
    if word is not None and vouched is not None:
        who = f" by {vouched.by}" if vouched.by else ""
        return answer, f"the pool rests on the attestation {UNIFIED}={how}{who}, not on the engine"
    return answer, f"the pool rests on the start-up log, which says {UNIFIED} = {how}"
