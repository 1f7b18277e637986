"""Figures in the start-up log of SGLang: a source of last resort, and a hint where it is down.

Source: scheduler.py, one line a data-parallel rank (0.5.5 to 0.5.23); tp_worker.py (0.5.23). The
line ``server_args=`` shows the API keys in clear, of which only the names are noted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleet.engines.loglines import NUMBER, figures_in, lines_of, smallest

_POOL: Final = re.compile(rf"\bmax_total_num_tokens={NUMBER}\b")
_CONTEXT: Final = re.compile(rf"\bcontext_len={NUMBER}\b")
_SHORT: Final = re.compile(rf"KV pool holds {NUMBER} tokens, fewer than --context-length {NUMBER}")
_KEY: Final = re.compile(r"\b(admin_api_key|api_key|ssl_keyfile_password)=['\"][^'\"]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What the log says, in tokens; None where it says nothing. ``secrets`` are names only."""

    pool: int | None = None
    context: int | None = None
    secrets: tuple[str, ...] = ()


def read_logs(logs: Sequence[str]) -> LogFacts:
    """Answer the figures of a start-up log; the smallest pool and the largest context count."""
    if not logs:
        return LogFacts()
    short = [numbers for numbers in figures_in(logs, _SHORT) if len(numbers) == 2]  # noqa: PLR2004
    contexts = [numbers[0] for numbers in figures_in(logs, _CONTEXT)]
    names = {match[1] for line in lines_of(logs) for match in _KEY.finditer(line)}
    return LogFacts(
        pool=smallest([*figures_in(logs, _POOL), *short]),
        context=max([*contexts, *(pair[1] for pair in short)], default=None),
        secrets=tuple(sorted(f"{name} in the start-up log" for name in names)),
    )
