"""What the tick does for this floor."""

from __future__ import annotations

from common.tick import on_tick
from incidents.services import pull_now


@on_tick
def pull_news() -> None:
    """Pull findings and audits into incidents, and take back restores that a check undid."""
    pull_now()
