"""Canary plans that a deployment's audits may run, as the floor that knows them offers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from common.registry import Registry
from fleet.models import Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOffer:
    """One plan by its key, what it would show, and what it needs or costs, in words."""

    key: str
    title: str
    needs: str = ""

    @property
    def label(self) -> str:
        """Answer all of it in one line."""
        return f"{self.key}: {self.title}. {self.needs}".strip()


class Offerer(Protocol):
    """What a floor above has to offer."""

    def offers(self, deployment: Deployment | None) -> Sequence[PlanOffer]:
        """Answer its plans; what they cost is told of a deployment that was read."""
        ...


#: Filled by the floors above, of which this one knows nothing.
OFFERERS: Final = Registry[Offerer]("offerer of canary plans")


def plans_offered(deployment: Deployment | None = None) -> tuple[PlanOffer, ...]:
    """Answer every plan that an audit can run."""
    return tuple(offer for one in OFFERERS.all().values() for offer in one.offers(deployment))
