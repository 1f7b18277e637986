"""Lengths with which one prompt can block a decode node, so that all behind it wait.

Source: SGLang 0.5.19, seen: 1,010 tokens at a pool of 1,024 with 16 reserved tokens stayed at the
head of decode's queue for ever. No version was shown to be free of it, so it is assumed of all.
"""

from __future__ import annotations

#: SGLang's default of --num-reserved-decode-tokens, taken where a node does not show its own.
DEFAULT_RESERVE = 512


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
