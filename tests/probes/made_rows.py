"""Rows and scenes of canary rounds made by hand, with the figures of a round that went well."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fleet.reading import Role
from probes.canary.contract import Evidence
from probes.canary.departure import Episode, Glance, NodeCount
from probes.canary.rounds import Duty, Echo, Outcome, Part, Row, Sending, Sighting, Stay
from probes.canary.scene import PairFigures, Scene

A, B = "tenant-a", "tenant-b"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def scene(*, pool: int = 20_480, context: int = 16_384, **over: Any) -> Scene:  # noqa: ANN401
    first_refused = min(pool, context) - 6
    pair = PairFigures(
        name="p/d",
        prefill_first_refused=first_refused,
        prefill_all_refuse=first_refused,
        decode_first_refused=first_refused,
        decode_all_refuse=first_refused,
        prefill_free=pool,
        prefill_page=64,
        decode_free=pool,
        reserve=512,
    )
    figures: dict[str, Any] = {
        "target": "router",
        "pairs": (pair,),
        "page_size": 64,
        "pool": pool,
        "fill": pool,
        "context": context,
        "allowance": 1_000_000,
    }
    return Scene(**(figures | over))


def row(position: int, **over: Any) -> Row:  # noqa: ANN401 - any field of a row
    """Answer a row that was answered well; ``said`` makes the digests of its answer."""
    said = over.pop("said", f"code {position} and more of it")
    figures: dict[str, Any] = {
        "position": position,
        "part": Part.ASK,
        "purpose": "a test",
        "tenant": B,
        "request": f"r{position}",
        "length": 1_000,
        "max_new_tokens": 64,
        "duty": Duty.ANSWER,
        "outcome": Outcome.ANSWERED,
        "status": 200,
        "prompt_tokens": 1_000,
        "seconds": 1.0,
        "echo": Echo.WHOLE,
        "echo_offset": 0,
        "answer_length": len(said),
        "said_digest": digest(said),
        "answer_digest": digest(said),
        "opening_digest": digest(said.split()[0]) if said.split() else "",
        "worker": "p/d",
    }
    return Row(**(figures | over))


def answered(sendings: Sequence[Sending]) -> list[Row]:
    """Answer what a sound deployment makes of these: each script has one answer, alone or not."""
    rows = []
    for position, one in enumerate(sendings):
        name = one.script or f"alone {position}"
        is_long = one.max_new_tokens >= 24
        made = row(
            position,
            part=one.part,
            purpose=one.purpose,
            tenant=A if one.is_by_filler else B,
            request=name,
            length=one.length,
            prompt_tokens=one.length,
            max_new_tokens=one.max_new_tokens,
            duty=one.duty,
            script=one.script,
            wave=one.wave,
            salt=one.salt,
            is_bystander=one.is_bystander,
            temperature=one.form.temperature,
            asked_pages=(0, 3, 7) if one.codes > 1 else (),
            # The code at the end of the prompt comes first.
            sightings=_own(name, 7, 3, 0) if one.codes > 1 else (),
            echo=Echo.WHOLE if is_long else Echo.NOT_LOOKED_FOR,
            said=f"{digest(name)} is what this prompt brings",
        )
        if one.stay is not Stay.WHOLE:
            made = replace(
                made, outcome=Outcome.LEFT, status=None, echo=Echo.NOT_LOOKED_FOR, said_digest=""
            )
        rows.append(made)
    return rows


def _own(request: str, *pages: int) -> tuple[Sighting, ...]:
    return tuple(
        Sighting(tenant=A, request=request, page=page, offset=25 * place, length=24, is_own=True)
        for place, page in enumerate(pages)
    )


def evidence(plan: str, rows: Sequence[Row], **over: Any) -> Evidence:  # noqa: ANN401
    figures: dict[str, Any] = {
        "plan": plan,
        "scene": scene(),
        "rows": tuple(rows),
        "workers": ("p/d",),
    }
    return Evidence(**(figures | over))


def seen(tenant: str, request: str, *, page: int = 3) -> Sighting:
    """Answer another request's marker."""
    return Sighting(tenant=tenant, request=request, page=page, offset=0, length=24, is_own=False)


def counters(*, finished: int, aborted: int, is_readable: bool = True) -> Episode:
    """Answer the counters of both engines around a round in which clients left."""

    def glance(ended: int, given_up: int) -> Glance:
        return Glance(
            since_s=0.0,
            until_s=0.0,
            nodes=tuple(
                NodeCount(
                    node=f"{role}-1",
                    role=role,
                    finished=ended if is_readable else None,
                    aborted=given_up if is_readable else None,
                )
                for role in (Role.PREFILL, Role.DECODE)
            ),
        )

    return Episode(
        stay=Stay.LEAVES,
        target="router",
        length=1_000,
        max_new_tokens=192,
        is_answered=False,
        seconds=0.0,
        before=glance(7, 3),
        after=(glance(7 + finished, 3 + aborted),),
    )
