"""Lever of last resort: a person redeploys, and the gates say when it is done."""

from __future__ import annotations

from fleet.models import Deployment
from runbooks.contract import LEVERS, Work


@LEVERS.register("person")
class Person:
    """Asks a person; comes after every other lever by its name in the registry."""

    title = "A person"

    def applies_to(self, deployment: Deployment) -> bool:
        """Answer whether no lever of a machine is there."""
        return not deployment.control_url

    def pull(self, work: Work) -> str:
        """Say what a person must do."""
        return (
            f"waiting for a person to redeploy {work.deployment} with SGLang 0.5.21 or later and "
            "pools that cover the context, or with a --context-length that the pools cover"
        )
