"""Template tags of pure formatting: words and glyphs for verdicts, states, ages and figures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from common.clock import now

register = template.Library()

#: Glyph of a verdict; the word always stands beside it.
VERDICT_GLYPHS: Mapping[str, str] = {
    "pass": "✓",
    "fail": "✕",
    "inconclusive": "?",
    "not_exercised": "\N{EN DASH}",
    "error": "!",
}

#: Glyph of a state of an audit, a run, a step or an incident.
STATE_GLYPHS: Mapping[str, str] = {
    "done": "✓",
    "failed": "✕",
    "stopped": "!",
    "aborted": "✕",
    "running": "▶",
    "active": "▶",
    "ready": "▷",
    "waiting": "◆",
    "queued": "○",
    "pending": "○",
    "up": "✓",
    "down": "✕",
}

#: First segments of addresses whose place in the navigation has another name.
_PLACES: Mapping[str, str] = {"": "overview", "fleet": "deployments"}

#: Where a name may break: after an underscore, a dot or a slash.
_SEPARATORS = re.compile(r"(?<=[_./])")

_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S
_DAY_S = 24 * _HOUR_S
#: From here on an age reads in days, and the smaller unit no longer decides anything.
_DAYS_FROM_S = 2 * _DAY_S
#: Up to here minutes count in an age of hours.
_FINE_UP_TO_S = 10 * _HOUR_S


@register.filter
def verdict_glyph(verdict: object) -> str:
    """Answer the glyph of a verdict; a verdict that nobody knows is a question."""
    return VERDICT_GLYPHS.get(str(verdict or ""), "?")


@register.filter
def verdict_word(verdict: object) -> str:
    """Answer a verdict as a word; none yet reads as such."""
    return str(verdict or "no verdict yet").replace("_", " ")


@register.filter
def state_glyph(state: object) -> str:
    """Answer the glyph of a state."""
    return STATE_GLYPHS.get(str(state or ""), "○")


@register.filter
def words(value: object) -> str:
    """Answer a key as words: underscores become spaces."""
    return str(value or "").replace("_", " ")


@register.filter
def tokens(value: object) -> str:
    """Answer a figure with thousands separators; one that is not known reads "unknown"."""
    if isinstance(value, bool) or value is None or value == "":
        return "unknown"
    try:
        return f"{int(str(value)):,}"
    except ValueError:
        return str(value)


@register.filter
def times(value: object) -> str:
    """Answer a ratio as a factor with its sign; never rounded up to a whole that is not reached."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return "unknown"
    floored = int(value * 100) / 100
    return f"{floored:.2f} \N{MULTIPLICATION SIGN}"


@register.filter
def band(value: object) -> str:
    """Answer an interval of lengths as "10,618 to 16,377"; none reads "empty"."""
    if not isinstance(value, (list, tuple)) or not value:
        return "empty"
    return " to ".join(tokens(end) for end in value)


@register.filter
def figure(value: object) -> str:
    """Answer any figure of a check in a form that people read."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return tokens(value)
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, (list, tuple)):
        return band(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@register.filter
def duration(value: object) -> str:
    """Answer a span in its two largest units: "41 s", "12 min 8 s", "4 h 57 min", "3 d 4 h".

    Unit: a timedelta, or seconds. One that is not known reads "unknown".
    """
    seconds = _seconds(value)
    if seconds is None:
        return "unknown"
    return _span(seconds)


@register.filter
def age(moment: object) -> str:
    """Answer how long ago a moment was, coarser the older it is; no moment reads "never"."""
    if not isinstance(moment, datetime):
        return "never"
    seconds = max(int((now() - moment).total_seconds()), 0)
    if _FINE_UP_TO_S <= seconds < _DAYS_FROM_S:
        return f"{seconds // _HOUR_S} h"
    if _MINUTE_S <= seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S} min"
    return _span(seconds)


@register.filter
def left(moment: object) -> str:
    """Answer how long it is until a moment: "18 h 12 min left", or "over"."""
    if not isinstance(moment, datetime):
        return ""
    seconds = int((moment - now()).total_seconds())
    return f"{_span(seconds)} left" if seconds > 0 else "over"


@register.simple_tag
def since(start: datetime | None, end: datetime | None = None) -> str:
    """Answer the span from a start to an end, or until now while there is none."""
    if start is None:
        return ""
    return _span(int(((end or now()) - start).total_seconds()))


@register.filter
def utc(moment: object, shape: str = "full") -> str:
    """Answer a moment in UTC: "full", "clock" (time only) or "day"."""
    if not isinstance(moment, datetime):
        return "unknown"
    patterns = {"clock": "%H:%M:%S", "day": "%Y-%m-%d", "short": "%m-%d %H:%M"}
    return moment.astimezone(UTC).strftime(patterns.get(shape, "%Y-%m-%d %H:%M:%S"))


@register.filter
def breakable(name: object) -> SafeString:
    """Answer a long name that may break after its separators, never within a word."""
    pieces = _SEPARATORS.split(str(name or ""))
    return format_html_join(mark_safe("<wbr>"), "{}", ((piece,) for piece in pieces))


@register.filter
def place(path: object) -> str:
    """Answer the place in the navigation that an address belongs to: its first segment."""
    segment = str(path or "/").lstrip("/").split("/", 1)[0]
    return _PLACES.get(segment, segment)


@register.filter
def short_hash(value: object) -> str:
    """Answer the first twelve digits of a hash."""
    return str(value or "")[:12]


@register.simple_tag
def stamp(moment: datetime | None, shape: str = "full") -> SafeString:
    """Answer a moment as an element: UTC in the text, the local time added on hover by time.js."""
    if moment is None:
        return format_html('<span class="muted">{}</span>', "unknown")
    iso = moment.astimezone(UTC).isoformat(timespec="seconds")
    whole = f"{utc(moment)} UTC"
    return format_html(
        '<time class="fig" datetime="{}" title="{}">{}</time>', iso, whole, utc(moment, shape)
    )


def _seconds(value: object) -> int | None:
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value)
    return None


def _span(seconds: int) -> str:
    seconds = max(seconds, 0)
    if seconds < _MINUTE_S:
        return f"{seconds} s"
    if seconds < _HOUR_S:
        return _two(seconds, (_MINUTE_S, "min"), (1, "s"))
    if seconds < _DAYS_FROM_S:
        return _two(seconds, (_HOUR_S, "h"), (_MINUTE_S, "min"))
    return _two(seconds, (_DAY_S, "d"), (_HOUR_S, "h"))


def _two(seconds: int, large: tuple[int, str], small: tuple[int, str]) -> str:
    whole, rest = divmod(seconds, large[0])
    part = rest // small[0]
    return f"{whole} {large[1]} {part} {small[1]}" if part else f"{whole} {large[1]}"
