"""Gate: a prompt that a node of a pair refuses ends at the door, before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterable

from common.verdicts import Verdict
from fleet.reading import Attestation, FleetReading, Reading, Role
from probes.contract import GATES
from probes.doubts import doubt_about, doubt_about_role
from probes.judgement import Check, Figure, Kind, Skipped
from probes.pairs import is_stray
from probes.versions import SAFE_SINCE, Placement, place_version
from probes.vouched import Word, resting, resting_figures

KEY = "safe_rejection"

#: Attested: digest of an image that carries the fix, and digest of the image that runs.
PATCH = "patch.38935"
IMAGE = "image_digest"


@GATES.register(KEY)
class SafeRejection:
    """Reads from the version whether a refused prompt can still enter an admission queue.

    A person may attest that a build carries the fix (``patch.38935``: the digest of the image that
    was patched, beside ``image_digest``: that of the image that runs). It is believed only together
    with a refusal that a canary round saw of the very process; alone it is inconclusive.
    Source: upstream changes 36988 (0.5.20) and 38935 (0.5.21), read in the released wheels.
    """

    title = "Refusal ends at the door"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a prefill or decode node."""
        alone = []
        for reading in fleet.readings:
            if reading.role is Role.UNIFIED and not is_stray(reading):
                alone.append(reading.node)
            else:
                yield self._judge_node(reading, has_refused=reading.node in fleet.refused)
        if alone:
            names = ", ".join(alone)
            yield Skipped(check=KEY, reason=f"unified, so it hands no request on: {names}")
        elif not fleet.readings:
            yield Skipped(check=KEY, reason="no node was named")

    def _judge_node(self, reading: Reading, *, has_refused: bool) -> Check:
        verdict, reason = _verdict(reading, has_refused=has_refused)
        figures: dict[str, Figure] = {
            "version": reading.version,
            "safe_since": SAFE_SINCE.get(reading.engine),
        }
        if _is_unguarded(reading):
            words = [Word(value=None, rests_on=reading.vouched(key)) for key in (PATCH, IMAGE)]
            figures |= resting_figures(words)
        return Check(
            check=KEY,
            target=reading.node,
            verdict=verdict,
            kind=self.kind,
            reason=reason,
            figures=figures,
        )


def _is_unguarded(reading: Reading) -> bool:
    """Answer whether the version alone does not vouch for the door."""
    guards = place_version(reading.engine, reading.version).guards
    return guards is None or not guards.refuses_at_the_door


def _verdict(reading: Reading, *, has_refused: bool) -> tuple[Verdict, str]:
    doubt = doubt_about(reading)
    if doubt:
        return Verdict.INCONCLUSIVE, doubt
    placed = place_version(reading.engine, reading.version)
    if _is_unguarded(reading):
        verdict, reason = _verdict_of_unguarded(reading, placed, has_refused=has_refused)
    else:
        note = f"; {placed.note}" if placed.note else ""
        verdict = Verdict.PASS
        reason = (
            f"{reading.node} runs {reading.version}, which ends a refused prompt before anything "
            f"is allocated (since {SAFE_SINCE[reading.engine]}){note}"
        )
    doubt = doubt_about_role(reading)
    if verdict is Verdict.PASS and doubt:
        return Verdict.INCONCLUSIVE, doubt
    return verdict, reason


def _verdict_of_unguarded(
    reading: Reading, placed: Placement, *, has_refused: bool
) -> tuple[Verdict, str]:
    """Answer for a version that has no door guard, or of which nobody knows."""
    patch, image = reading.vouched(PATCH), reading.vouched(IMAGE)
    is_elsewhere = patch is not None and image is not None and patch.value != image.value
    if patch is not None and not is_elsewhere:
        return _verdict_of_patch(reading, patch, image, has_refused=has_refused)
    wrong = f"; {_unbound(patch, image)}" if patch is not None else ""
    if placed.guards is None:
        return Verdict.INCONCLUSIVE, (
            f"whether {reading.node} ends a refused prompt at the door is not known: "
            f"{placed.problem}; run a final release that is known to{wrong}"
        )
    return Verdict.FAIL, (
        f"{reading.node} runs {reading.version}, which lets a refused prompt into its "
        f"admission queue: upgrade it to {SAFE_SINCE[reading.engine]} or later{wrong}"
    )


def _verdict_of_patch(
    reading: Reading, patch: Attestation, image: Attestation | None, *, has_refused: bool
) -> tuple[Verdict, str]:
    """Answer what a person says of the build, and what is still missing before it counts."""
    missing = []
    if image is None or not patch.value:
        missing.append(_unbound(patch, image))
    if not has_refused:
        missing.append(
            "no canary round is at hand that saw this very process refuse: run a boundary round "
            "over it, or put its document into the capture as canary"
        )
    words = [Word(value=one.value, rests_on=one) for one in (patch, image) if one is not None]
    runs = f"{reading.node} runs {reading.version or 'an unknown version'}"
    if missing:
        return Verdict.INCONCLUSIVE, (
            f"{runs}, and that it carries the fix is only attested: {'; '.join(missing)}"
            f"{resting(words)}"
        )
    return Verdict.PASS, (
        f"{runs} in an image that is attested to carry the fix, and a canary round saw it refuse"
        f"{resting(words)}"
    )


def _unbound(patch: Attestation, image: Attestation | None) -> str:
    if image is None or not patch.value:
        return f"{IMAGE} of the image that runs is not attested, so the patch is bound to nothing"
    return f"it was patched in {patch.value}, but {image.value} is what runs"
