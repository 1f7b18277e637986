"""Read models of this floor's pages."""

from __future__ import annotations

from fleet.models import Deployment
from fleet.services import DeploymentTerms


def terms_of(deployment: Deployment) -> dict[str, object]:
    """Answer what is said of a deployment, by the names of its form."""
    return {name: getattr(deployment, name) for name in DeploymentTerms.__dataclass_fields__}


def tenant_names(deployment: Deployment) -> dict[str, object]:
    """Answer the names of the two tenants, by the names of their form; no key."""
    named = deployment.credentials.defer("sealed").filter(purpose__startswith="tenant")
    return {f"{one.purpose}_name": one.name for one in named}
