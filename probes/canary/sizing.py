"""How long the equal prompts of a plan may be: within budget, limits and what fits together."""

from __future__ import annotations

from probes.canary.scene import Scene

#: Below this a prompt holds little but its own ask. Unit: tokens.
SHORTEST = 256
#: Longer prompts tell nothing more, and cost the engines more. Unit: tokens.
LONGEST = 32_768
#: Taken where decode does not show what it keeps free beside each request. Unit: tokens.
#: Source: SGLang server_args, num_reserved_decode_tokens.
_USUAL_RESERVE = 512


def equal_length(scene: Scene, *, requests: int, new_tokens: int, at_once: int = 1) -> int:
    """Answer the length of so many equal prompts, of which some are under way together.

    What the round may cost decides, down to the shortest that tells something; what the nodes have
    room for decides over that. Unit: tokens.
    """
    affordable = scene.allowance // max(1, requests) - new_tokens
    wanted = max(SHORTEST, min(affordable, LONGEST))
    roomy = min(scene.longest_fitting(new_tokens), scene.last_admitted)
    lacking = new_tokens - scene.room_at(roomy)
    return max(1, min(wanted, roomy - max(0, lacking), _together(scene, new_tokens, at_once)))


def _together(scene: Scene, new_tokens: int, at_once: int) -> int:
    """Answer the longest prompt of which so many fit a pair's free pages at the same time."""
    rooms = []
    for pair in scene.pairs:
        reserve = _USUAL_RESERVE if pair.reserve is None else pair.reserve
        rooms.append(pair.decode_free // at_once - new_tokens - reserve)
        rooms.append(pair.prefill_free // at_once - 1)
    return min(rooms)
