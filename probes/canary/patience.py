"""How long an answer is waited for, and the most time that a round can so take."""

from __future__ import annotations

from collections.abc import Sequence

from probes.canary.rounds import Duty, Sending

#: How long an answer may take: a start and the slowest prefill worth waiting for.
_ANSWER_S = 60.0
_SLOWEST_TOKENS_A_SECOND = 500
_SLOWEST_NEW_TOKENS_A_SECOND = 4
#: A refusal that takes longer holds something up; waiting on holds it up more. Unit: seconds.
_REFUSAL_S = 30.0


def timeout_of(sending: Sending, beside: Sequence[Sending] = ()) -> float:
    """Answer how long to wait for an answer to this request. Unit: seconds.

    What is under way ``beside`` it may be computed first.
    """
    if sending.duty is Duty.REFUSAL:
        return _REFUSAL_S + sending.max_new_tokens / _SLOWEST_NEW_TOKENS_A_SECOND
    tokens = sum(one.length for one in beside) or sending.length
    return _ANSWER_S + tokens / _SLOWEST_TOKENS_A_SECOND


def longest_s(sendings: Sequence[Sending]) -> float:
    """Answer what these take together on the slowest engine worth waiting for. Unit: seconds."""
    due = [one for one in sendings if one.duty is not Duty.REFUSAL]
    prompts = sum(one.length for one in due) / _SLOWEST_TOKENS_A_SECOND
    new = sum(one.max_new_tokens for one in due) / _SLOWEST_NEW_TOKENS_A_SECOND
    return round(prompts + new, 1)
