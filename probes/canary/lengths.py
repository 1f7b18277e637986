"""Lengths that several plans take from a scene: what fits, and where pages end. Unit: tokens."""

from __future__ import annotations

from probes.canary.scene import Scene

#: Below this a prompt holds little but its own ask.
SHORTEST_TOKENS = 128


def longest_with_room(scene: Scene, new_tokens: int) -> int:
    """Answer the longest admitted prompt that leaves room for so many new tokens, at least 1.

    Kept out of the hang band. Where even a short prompt would be in it the runner does not send it.
    """
    length = min(scene.last_admitted, scene.longest_fitting(new_tokens))
    lacking = new_tokens - scene.room_at(length)
    return max(1, length - max(0, lacking))


def page_borders(scene: Scene) -> tuple[int, ...]:
    """Answer one less than whole pages, whole pages, and one more; none where a page is a token.

    The least number of pages that hold a prompt. Source: case C08 of the public reports.
    """
    if scene.page_size <= 1:
        return ()
    whole = -(-(SHORTEST_TOKENS + 1) // scene.page_size) * scene.page_size
    return whole - 1, whole, whole + 1
