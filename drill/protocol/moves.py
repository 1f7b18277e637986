"""What can happen next: the one relation over states that everything else explores."""

from __future__ import annotations

from collections.abc import Iterator

from drill.protocol.decode_moves import decode_moves
from drill.protocol.guards import ProtocolGuards
from drill.protocol.prefill_moves import prefill_moves
from drill.protocol.state import Setup, State
from drill.protocol.steps import NOT_PROGRESS, Here, Step


def moves(state: State, guards: ProtocolGuards, setup: Setup) -> Iterator[Step]:
    """Answer every move that a state allows, with the state that it leads to.

    Time-outs and clients that leave come last, so that of two traces of one length the one is told
    in which things go wrong late.
    """
    late: list[Step] = []
    for number, run in enumerate(state.runs):
        here = Here(state, number, run, guards, setup)
        for step in (*decode_moves(here), *prefill_moves(here)):
            if step[0].kind in NOT_PROGRESS:
                late.append(step)
            else:
                yield step
    yield from late
