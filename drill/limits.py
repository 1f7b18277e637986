"""How long an input may be: the engine's own arithmetic and its own words for a refusal."""

from __future__ import annotations

SPARE_TOKENS = 5
"""Source: SGLang tp_worker, max_req_input_len = max_req_len - 5."""

CLIP_MAX_NEW_TOKENS = 4096
"""Source: SGLang schedule_policy, SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION."""

DEFAULT_MAX_NEW_TOKENS = 128
"""Source: SGLang SamplingParams."""


def max_req_len(context: int, pool: int) -> int:
    """Answer the longest input plus output that a node can hold."""
    return min(context - 1, pool - 1)


def max_req_input_len(context: int, pool: int) -> int:
    """Answer the first refused input length of a node."""
    return max_req_len(context, pool) - SPARE_TOKENS


def context_refusal(length: int, max_new_tokens: int | None, context: int) -> str | None:
    """Answer the tokenizer's refusal, which comes before any scheduler sees the request.

    Source: SGLang 0.5.19 tokenizer_manager: `length >= context`, then `length + new > context`.
    """
    if length >= context:
        return (
            f"The input ({length} tokens) is longer than the model's context length "
            f"({context} tokens)."
        )
    if max_new_tokens is None or length + max_new_tokens <= context:
        return None
    return (
        f"Requested token count exceeds the model's maximum context length of {context} tokens. "
        f"You requested a total of {length + max_new_tokens} tokens: {length} tokens from the "
        f"input messages and {max_new_tokens} tokens for the completion. Please reduce the number "
        "of tokens in the input messages or the completion to fit within the limit."
    )


def length_refusal(length: int, limit: int) -> str | None:
    """Answer the scheduler's refusal of an input that reaches the node's own limit."""
    if length < limit:
        return None
    return (
        f"Input length ({length} tokens) exceeds the maximum allowed length ({limit} tokens). "
        "Use a shorter input or enable --allow-auto-truncate."
    )


def clipped_max_new_tokens(wanted: int | None, *, length: int, max_len: int, room: int) -> int:
    """Answer how many tokens a request may add; `room` is the pool left beside its whole pages."""
    asked = 1 << 30 if wanted is None else wanted
    return max(0, min(asked, max_len - length - 1, room - 1))
