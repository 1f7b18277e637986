"""Why the word of a node cannot be judged, in sentences for the person who has to act on them."""

from __future__ import annotations

from fleet.reading import Reading, Role
from probes.once import once_per_reading

_MODES = {Role.PREFILL: "prefill", Role.DECODE: "decode", Role.UNIFIED: "null"}


@once_per_reading
def doubt_about(reading: Reading) -> str:
    """Answer why this node cannot be judged at all, or nothing where it can."""
    if not reading.is_read:
        return (
            f"{reading.node} could not be read: {reading.problem.rstrip('.')}; "
            "bring it up or correct its address or key, then judge again"
        )
    if reading.reported_role is not None and not reading.role_is_declared:
        return (
            f"{reading.node} was named as {reading.role}, but its engine runs as "
            f"{reading.reported_role}: name it as what it is, or restart it {_as(reading)}"
        )
    if reading.role is Role.UNIFIED and _may_be_of_a_pair(reading):
        return (
            f"{reading.node} was named as unified, but it moves KV by {reading.transfer_backend}, "
            "so it may be one side of a pair: name it as prefill or decode, with the other side"
        )
    if _shows_several_modes(reading):
        return (
            f"{reading.node} shows different or unknown disaggregation modes, so nobody can say "
            f"that it runs as {reading.role}: look whether one address leads to two engines"
        )
    return ""


def _as(reading: Reading) -> str:
    if reading.engine != "sglang":
        return f"as {reading.role}"
    return f"with --disaggregation-mode {_MODES[reading.role]}"


def _shows_several_modes(reading: Reading) -> bool:
    """Answer whether the engine shows a mode that still does not tell its role."""
    shows_one = reading.flags.get("disaggregation_mode") is not None
    is_told = any(entry.startswith("role:") for entry in reading.incomplete)
    return reading.reported_role is None and shows_one and is_told


def _may_be_of_a_pair(reading: Reading) -> bool:
    """Answer whether a connector between engines runs and no role is told (vLLM)."""
    is_told = any(entry.startswith("role:") for entry in reading.incomplete)
    moves_kv = reading.flags.get("kv_connector") is not None
    return reading.reported_role is None and is_told and moves_kv


def doubt_about_role(reading: Reading) -> str:
    """Answer that the engine does not confirm the role it was declared with, or nothing."""
    if reading.reported_role is None:
        return f"{reading.node} does not say whether it runs as {reading.role}"
    return ""


def tokens(figure: int | None) -> str:
    """Answer a figure with thousands separators, for a sentence."""
    return "unknown" if figure is None else f"{figure:,}"
