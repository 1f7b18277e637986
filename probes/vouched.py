"""Settings that an engine may not show: its own word first, then a person's, named as such.

A verdict that rests on a person's word says so in its reason and in its figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.reading import Attestation, Reading

DEFERRED_RELEASE = "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE"
BATCH_LIMIT = "SGLANG_MOONCAKE_MAX_TRANSFER_BATCH_INDICES"
#: Flag of a reading that tells that the engine shows its environment, so that what it does not list
#: is not set.
ENVIRONMENT = "environment"

_TRUE = frozenset({"1", "true", "yes", "y", "on", "t"})
_FALSE = frozenset({"0", "false", "no", "n", "off", "f"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What is known of one setting. ``value`` is None where nobody says; ``rests_on`` a person."""

    value: str | None
    rests_on: Attestation | None = None


def word_about(reading: Reading, *names: str) -> Word:
    """Answer what the engine shows under the first of these names, else what a person vouches."""
    for name in names:
        shown = reading.flags.get(name)
        if shown is not None:
            return Word(value=shown)
    for name in names:
        vouched = reading.vouched(name)
        if vouched is not None:
            return Word(value=vouched.value.strip(), rests_on=vouched)
    return Word(value=None)


def back_end_of(reading: Reading) -> Word:
    """Answer the transfer back end, as the engine shows it or a person vouches."""
    if reading.transfer_backend is not None:
        return Word(value=reading.transfer_backend)
    return word_about(reading, "transfer_backend")


def switch_of(value: str) -> bool | None:
    """Answer a switch of an environment; None where the text is neither on nor off."""
    lowered = value.strip().lower()
    if lowered in _TRUE:
        return True
    return False if lowered in _FALSE else None


def shows_environment(reading: Reading) -> bool:
    """Answer whether what the engine does not list is known not to be set."""
    return reading.flags.get(ENVIRONMENT) is not None


def resting(words: Iterable[Word]) -> str:
    """Answer the end of a sentence that names whose word it rests on; empty for the engine's."""
    people = [_told(word.rests_on) for word in words if word.rests_on is not None]
    return f"; this rests on {' and '.join(dict.fromkeys(people))}" if people else ""


def resting_figures(words: Iterable[Word]) -> Mapping[str, str]:
    """Answer the figure that names every attestation used; empty where none was."""
    used = [word.rests_on for word in words if word.rests_on is not None]
    if not used:
        return {}
    return {"attested": ", ".join(f"{one.key}={one.value} by {one.by or '?'}" for one in used)}


def _told(word: Attestation) -> str:
    who = f"the word of {word.by}" if word.by else "an attestation that nobody signed"
    why = f" ({word.reason})" if word.reason else ""
    until = f", good until {word.until:%Y-%m-%d %H:%M} UTC" if word.until else ", without expiry"
    return f"{who}{why} for {word.key}{until}"
