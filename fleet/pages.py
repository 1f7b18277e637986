"""Read models of this floor's pages."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.attestable import meaning_of
from fleet.models import Attestation, Deployment
from fleet.selectors import attestations_standing
from fleet.services import DeploymentTerms


def terms_of(deployment: Deployment) -> dict[str, object]:
    """Answer what is said of a deployment, by the names of its form."""
    return {name: getattr(deployment, name) for name in DeploymentTerms.__dataclass_fields__}


def tenant_names(deployment: Deployment) -> dict[str, object]:
    """Answer the names of the two tenants, by the names of their form; no key."""
    named = deployment.credentials.defer("sealed").filter(purpose__startswith="tenant")
    return {f"{one.purpose}_name": one.name for one in named}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationLine:
    """What one person vouches for, and what its value says."""

    row: Attestation
    meaning: str


def attestation_lines(deployment: Deployment) -> tuple[AttestationLine, ...]:
    """Answer what people vouch for of a deployment, run out or not, in one query."""
    return tuple(
        AttestationLine(row=row, meaning=meaning_of(row.key))
        for row in attestations_standing(deployment)
    )
