"""Requests that several plans send: the filling of the pool, and one prompt alone, twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from probes.canary.controls import ECHO_TOKENS
from probes.canary.lengths import SHORTEST_TOKENS, longest_with_room
from probes.canary.rounds import Duty, Part, Sending
from probes.canary.scene import Scene


def fills(scene: Scene, *, at_least: int = 0) -> Iterator[Sending]:
    """Answer tenant A's prompts that fill every pool once, or so many tokens if they are more."""
    length = longest_with_room(scene, ECHO_TOKENS)
    # Where not even a short prompt fits, one row that says so is enough.
    wanted = max(scene.fill, at_least)
    count = -(-wanted // length) if length >= SHORTEST_TOKENS else 1
    for _ in range(count):
        yield Sending(
            part=Part.FILL,
            length=length,
            max_new_tokens=ECHO_TOKENS,
            duty=Duty.ANSWER,
            purpose="fills the pool",
        )


def alone_twice(ask: Sending) -> Iterator[Sending]:
    """Answer the same prompt as it is answered alone; once more, to see that it is repeatable."""
    for purpose in ("alone", "alone once more"):
        yield replace(ask, part=Part.CONTROL, purpose=f"{ask.purpose}, {purpose}", wave=0)
