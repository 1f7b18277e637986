"""Lengths with which one prompt can block a node, so that all behind it wait.

Decode, seen on SGLang 0.5.19: 1,010 tokens at a pool of 1,024 with 16 reserved tokens stayed at
the head of its queue for ever. Prefill and unified nodes, read in 0.5.19 and 0.5.20
(schedule_policy.py, PrefillAdder): a prompt is scheduled only while prompt, new tokens and one page
together stay below the free pool; prefill counts one new token. No version was shown to be free of
either, so both are assumed of all.
"""

from __future__ import annotations

#: SGLang's default of --num-reserved-decode-tokens, taken where a node does not show its own.
DEFAULT_RESERVE = 512

#: Taken where a node does not show its page size: the largest that SGLang commonly runs with.
DEFAULT_PAGE = 64


def longest_scheduled(*, free: int, page_size: int | None, max_new_tokens: int) -> int:
    """Answer the longest prompt that a node which computes prompts can schedule. Unit: tokens."""
    return free - max_new_tokens - (page_size or DEFAULT_PAGE) - 1


def longest_that_fits(*, free: int, reserve: int | None, max_new_tokens: int) -> int:
    """Answer the longest prompt that decode can reserve pages for. Unit: tokens.

    Decode keeps the reserve free beside the prompt, or all new tokens where they are more.
    """
    kept = DEFAULT_RESERVE if reserve is None else reserve
    return free - max(kept, max_new_tokens)


def hang_band(
    *, free: int, reserve: int | None, max_new_tokens: int, last_admitted: int
) -> tuple[int, int] | None:
    """Answer the lengths that decode admits and cannot reserve, or None where there are none."""
    fits = longest_that_fits(free=free, reserve=reserve, max_new_tokens=max_new_tokens)
    return None if fits >= last_admitted else (max(fits, 0) + 1, last_admitted)
