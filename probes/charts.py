"""Readings drawn: the pool of each node against the context that its clients are promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Height of one node's row; the page's list of figures beside it has the same.
ROW_HEIGHT_PX = 24
#: A pool beyond this many contexts ends at the edge: its figure stands beside it.
_WIDEST_IN_CONTEXTS = 2.5
_EDGE = 1.04
_BAR_WIDTH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBar:
    """What one node, or several alike, hold against what is promised. Unit: tokens.

    ``wanted`` is the context times the headroom; None where a figure is not known.
    """

    label: str
    role: str = ""
    pool: int | None = None
    context: int | None = None
    wanted: int | None = None

    @property
    def held(self) -> int:
        """Answer what there is to draw."""
        return self.pool or 0

    @property
    def short_by(self) -> int:
        """Answer what is promised but not held."""
        if self.pool is None or self.context is None:
            return 0
        return max(0, self.context - self.pool)

    @property
    def ratio(self) -> float | None:
        """Answer pool / context, or None where one is not known."""
        if self.pool is None or not self.context:
            return None
        return self.pool / self.context

    @property
    def is_short(self) -> bool:
        """Answer whether less is held than is promised."""
        return self.short_by > 0

    @property
    def is_wanting(self) -> bool:
        """Answer whether the pool covers the context but not the headroom."""
        known = self.pool is not None and self.wanted is not None
        return known and not self.is_short and self.held < (self.wanted or 0)


def pool_figure(bars: Sequence[PoolBar]) -> dict[str, Any]:
    """Answer the figure of pools against the context.

    **Shape**: one bar a row in the order given, from the top; the context is a line, the wanted
    headroom dashed, what is promised but not held hatched.
    **Unit**: tokens. **Source**: figures of the gate pool_covers_context.
    """
    rows = list(range(len(bars)))
    context = max((bar.context or 0 for bar in bars), default=0)
    wanted = max((bar.wanted or 0 for bar in bars), default=0)
    reach = _reach(bars, context, wanted)
    return {
        "data": [
            _bar("held", rows, [min(bar.held, reach) for bar in bars], {"color": "var(--pw-bar)"}),
            _bar("promised, not held", rows, [bar.short_by for bar in bars], _hatched()),
        ],
        "layout": {
            "barmode": "stack",
            "bargap": 1 - _BAR_WIDTH,
            "height": ROW_HEIGHT_PX * len(bars),
            "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
            "showlegend": False,
            "xaxis": {
                "title": {"text": "tokens"},
                "range": [0, reach],
                "visible": False,
                "fixedrange": True,
            },
            "yaxis": {
                "range": [len(bars) - 0.5, -0.5],
                "visible": False,
                "fixedrange": True,
            },
            "shapes": [
                *(_line(context, "solid") if context else []),
                *(_line(wanted, "dot") if wanted else []),
            ],
        },
    }


def _reach(bars: Sequence[PoolBar], context: int, wanted: int) -> float:
    """Answer how many tokens the width stands for: all bars, within reason."""
    largest = max((bar.held for bar in bars), default=0)
    if context:
        largest = min(largest, int(context * _WIDEST_IN_CONTEXTS))
    return max(largest, context, wanted, 1) * _EDGE


def _bar(
    name: str, rows: list[int], values: Sequence[float], marker: dict[str, Any]
) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": list(values),
        "y": rows,
        "width": _BAR_WIDTH,
        "marker": marker,
        "hoverinfo": "skip",
    }


def _hatched() -> dict[str, Any]:
    return {
        "color": "var(--pw-bar-rest)",
        "pattern": {
            "shape": "/",
            "size": 6,
            "solidity": 0.4,
            "fgcolor": "var(--pw-fail)",
            "bgcolor": "var(--pw-bar-rest)",
        },
    }


def _line(at: int, dash: str) -> list[dict[str, Any]]:
    return [
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": at,
            "x1": at,
            "y0": 0,
            "y1": 1,
            "line": {"color": "var(--pw-text)", "width": 1.5, "dash": dash},
        }
    ]
