"""Writes the signed proof of a gate that passed, and takes an older one back where it did not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from common.clock import now
from fleet.reading import FleetReading
from probes.artefacts import write_private
from probes.judgement import Judgement
from probes.proof_bundle import LASTS, is_envelope, sign, statement_of

#: The version of this checkout; it is installed as a package only where somebody does so.
_VERSION = "0.1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOrder:
    """Where a proof shall go, and the key that signs it (never shown)."""

    path: Path
    key: bytes = field(repr=False)


def give_proof(
    order: ProofOrder, fleet: FleetReading, judgement: Judgement, *, tell: Callable[[str], None]
) -> bool:
    """Write the proof of a pass; answers whether it could be. Raises BadKey, UsageError, ToolError.

    A node whose restart would not show cannot be bound to: a proof of it would outlive a change.
    """
    blind = [one.node for one in fleet.readings if not one.restart_is_visible]
    if blind:
        take_back_proof(order, tell=tell)
        names = ", ".join(blind)
        tell(f"no proof is written: a restart of {names} would not show, so it would prove nothing")
        return False
    issued_at = now()
    payload = statement_of(fleet, judgement.document(), issuer=issuer(), issued_at=issued_at)
    write_private(order.path, sign(payload, order.key), replace=True)
    tell(f"proof of {len(fleet.readings)} nodes in {order.path}, until {issued_at + LASTS:%F %R}Z")
    return True


def take_back_proof(order: ProofOrder, *, tell: Callable[[str], None]) -> None:
    """Remove an older proof from that place: what did not pass now must not look proved."""
    try:
        text = order.path.read_bytes()
    except OSError:
        return
    if is_envelope(text):
        order.path.unlink(missing_ok=True)
        tell(f"no pass, so no proof: the older one in {order.path} was removed")


def issuer() -> str:
    """Answer who issues proofs: the product and its version."""
    try:
        return f"pagewarden {version('pagewarden')}"
    except PackageNotFoundError:
        return f"pagewarden {_VERSION}"
