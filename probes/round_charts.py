"""Rounds drawn: first tokens by what a cache could know, and the share of right answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from probes.canary.contract import Evidence
from probes.canary.oracle_salt import arms_of
from probes.canary.oracle_trend import Window, windows_of
from probes.canary.rounds import Row
from probes.canary.saved_fields import BadRound
from probes.canary.saved_rows import read_row
from probes.canary.saved_scene import read_scene

_HEIGHT_PX: Final = 160
_SALT: Final = "salt"
#: Plans that ask the same prompts over and over, so that right ones can be counted in windows.
_REPEATING: Final = frozenset({"reference", "churn"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure with its numbers: each a name and what it came to, in words."""

    title: str
    figure: Mapping[str, Any]
    numbers: tuple[tuple[str, str], ...]

    @property
    def says(self) -> str:
        """Answer in words what is drawn."""
        return f"{self.title}: {'; '.join(f'{name} {words}' for name, words in self.numbers)}"


def drawing_of(plan: str, documents: Iterable[Mapping[str, Any]]) -> Drawing | None:
    """Answer what a round of this plan is drawn as, or None where there is nothing to draw."""
    if plan != _SALT and plan not in _REPEATING:
        return None
    evidence = _evidence(plan, documents)
    if evidence is None:
        return None
    return _first_tokens(evidence) if plan == _SALT else _right_answers(evidence)


def _evidence(plan: str, documents: Iterable[Mapping[str, Any]]) -> Evidence | None:
    scene = read_scene({}, target="")
    try:
        rows = tuple(
            read_row(one, position=number, scene=scene, codes=())
            for number, one in enumerate(documents)
        )
    except BadRound:
        return None
    return Evidence(plan=plan, scene=scene, rows=rows)


def _first_tokens(evidence: Evidence) -> Drawing | None:
    """Answer the time to the first token of every request, by what a cache could know of it.

    **Shape**: one column for each arm of each group, a point a request. **Unit**: seconds.
    **Source**: the rows of the plan ``salt``.
    """
    columns: dict[str, list[float]] = {}
    for is_salted in (True, False):
        rows = tuple(one for one in evidence.rows if one.script and bool(one.salt) is is_salted)
        arms = arms_of(Evidence(plan=evidence.plan, scene=evidence.scene, rows=rows))
        group = "salted" if is_salted else "no salt"
        named = (("new", arms.new), ("own", arms.same), ("another's", arms.other))
        columns |= {f"{group}, {name}": _times(found) for name, found in named}
    columns = {name: times for name, times in columns.items() if times}
    if not columns:
        return None
    points = [(at, time) for at, times in enumerate(columns.values()) for time in times]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [at for at, _ in points],
        "y": [time for _, time in points],
        "marker": {"color": "var(--pw-accent)", "size": 7, "opacity": 0.7},
        "hoverinfo": "skip",
    }
    return Drawing(
        title="Time to the first token, by what a cache could know of the prompt",
        figure=_figure(trace, [*columns], {"title": {"text": "s"}, "rangemode": "tozero"}),
        numbers=tuple(
            (name, f"median {median(times):.3f} s of {len(times)}")
            for name, times in columns.items()
        ),
    )


def _right_answers(evidence: Evidence) -> Drawing | None:
    """Answer the share of right answers in each third of a round, in the order of sending.

    **Shape**: one bar a window. **Unit**: share of the answers of which it can be told.
    **Source**: oracle ``trend``.
    """
    windows = windows_of(evidence)
    if not windows:
        return None
    names = [f"{_ORDINALS[at]} third" for at in range(len(windows))]
    trace = {
        "type": "bar",
        "x": list(range(len(windows))),
        "y": [one.share for one in windows],
        "width": 0.5,
        "marker": {"color": "var(--pw-bar)"},
        "hoverinfo": "skip",
    }
    return Drawing(
        title="Share of right answers as the round went on",
        figure=_figure(trace, names, {"range": [0, 1.02], "tickformat": ".0%"}),
        numbers=tuple(zip(names, map(_share_words, windows), strict=True)),
    )


_ORDINALS: Final = ("first", "second", "last")


def _share_words(window: Window) -> str:
    return f"{window.right} of {window.answers} right"


def _times(rows: Sequence[Row]) -> list[float]:
    return [one.first_token_s for one in rows if one.first_token_s is not None]


def _figure(
    trace: Mapping[str, Any], names: Sequence[str], yaxis: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "data": [dict(trace)],
        "layout": {
            "height": _HEIGHT_PX,
            "margin": {"l": 48, "r": 8, "t": 8, "b": 24},
            "showlegend": False,
            "xaxis": {
                "tickvals": list(range(len(names))),
                "ticktext": [name.replace(", ", "<br>") for name in names],
                "range": [-0.5, len(names) - 0.5],
                "fixedrange": True,
                "showgrid": False,
                "zeroline": False,
            },
            "yaxis": {"fixedrange": True, **yaxis},
        },
    }
