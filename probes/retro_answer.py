"""What a look back answers: a judgement, the windows behind it, and the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from common.verdicts import Verdict
from probes.judgement import Check, Figure, Judgement, JudgementDocument, Kind
from probes.retro import History, Openness, Window

CHECK = "retro_exposure"
_VERDICTS = {
    Openness.OPEN: Verdict.FAIL,
    Openness.POSSIBLE: Verdict.INCONCLUSIVE,
    Openness.UNKNOWN: Verdict.INCONCLUSIVE,
    Openness.CLOSED: Verdict.PASS,
}
_WORST_FIRST = (Openness.OPEN, Openness.POSSIBLE, Openness.UNKNOWN, Openness.CLOSED)

WindowDocument = TypedDict(
    "WindowDocument",
    {
        "prefill": str,
        "decode": str,
        "state": str,
        "from": str,
        "to": str,
        "is_lower_bound": bool,
        "band": list[int] | None,
        "version": str | None,
        "reason": str,
    },
)


class RetroDocument(JudgementDocument):
    """A judgement with the windows behind it; moments in ISO 8601, UTC."""

    open_since: str | None
    possible_since: str | None
    windows: list[WindowDocument]
    gaps: list[WindowDocument]
    notes: list[str]


def judge_history(history: History) -> Judgement:
    """Answer one check a pair: open fails; what may have been open or is not known is not told.

    A pass covers the recorded moments only, and says from when to when.
    """
    pairs: dict[tuple[str, str], list[Window]] = {}
    for window in history.windows:
        pairs.setdefault((window.prefill, window.decode), []).append(window)
    if not pairs:
        reason = "no pair of a prefill and a decode node is recorded at one time"
        return Judgement(checks=(_check("", Verdict.INCONCLUSIVE, reason, {}),))
    return Judgement(
        checks=tuple(_judge_pair(f"{a}/{b}", found) for (a, b), found in pairs.items())
    )


def retro_document(history: History) -> RetroDocument:
    """Answer the published JSON object."""
    told = judge_history(history).document()
    return {
        **told,
        "open_since": _shown(history.open_since),
        "possible_since": _shown(history.possible_since),
        "windows": [_window(one) for one in history.of(Openness.OPEN, Openness.POSSIBLE)],
        "gaps": [_window(one) for one in history.of(Openness.UNKNOWN)],
        "notes": [*history.notes],
    }


def render_history(history: History) -> str:
    """Answer windows, gaps and notes as lines for a terminal."""
    lines = [
        f"{one.openness}: {one.prefill}/{one.decode} from {_shown(one.begins_at)}"
        f"{' or earlier' if one.is_cut and one.band else ''} to {_shown(one.ends_at)}"
        f"{f', band [{one.band[0]:,}, {one.band[1]:,}]' if one.band else ''}: {one.reason}"
        for one in history.windows
        if one.openness is not Openness.CLOSED
    ]
    lines += [f"note: {one}" for one in history.notes]
    return "\n".join(lines)


def _judge_pair(target: str, windows: Sequence[Window]) -> Check:
    worst = min(windows, key=lambda one: _WORST_FIRST.index(one.openness))
    alike = [one for one in windows if one.openness is worst.openness]
    figures: dict[str, Figure] = {
        "band": None if worst.band is None else [*worst.band],
        "since": _shown(alike[0].begins_at),
        "until": _shown(alike[-1].ends_at),
        "windows": len(alike),
    }
    verdict = _VERDICTS[worst.openness]
    first, last = _shown(windows[0].begins_at), _shown(windows[-1].ends_at)
    if worst.openness is Openness.CLOSED:
        return _check(
            target, verdict, f"closed from {first} to {last}, all of it recorded", figures
        )
    since = f"{'at the latest ' if alike[0].is_cut else ''}since {_shown(alike[0].begins_at)}"
    reason = f"{worst.openness} {since}: {worst.reason}"
    return _check(target, verdict, reason, figures)


def _check(target: str, verdict: Verdict, reason: str, figures: dict[str, Figure]) -> Check:
    return Check(
        check=CHECK,
        target=target,
        verdict=verdict,
        kind=Kind.CONFIG,
        reason=reason,
        figures=figures,
    )


def _window(one: Window) -> WindowDocument:
    return {
        "prefill": one.prefill,
        "decode": one.decode,
        "state": str(one.openness),
        "from": one.begins_at.isoformat(),
        "to": one.ends_at.isoformat(),
        "is_lower_bound": one.is_cut,
        "band": None if one.band is None else [*one.band],
        "version": one.version,
        "reason": one.reason,
    }


def _shown(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
