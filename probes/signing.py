"""Signs the proofs of audits with the installation's own key, and shows its public half."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from django.conf import settings

from fleet.reading import FleetReading
from probes.issuing import issuer
from probes.judgement import Judgement
from probes.proof_bundle import BadKey, public_key_of, sign, statement_of

log = logging.getLogger(__name__)


class NoSigningKey(Exception):
    """No proof can be signed here; the text says why and what to set."""


def public_key() -> str:
    """Answer the key that checks what was signed here, as PEM. Raises NoSigningKey."""
    try:
        return public_key_of(_private_key())
    except BadKey as fault:
        raise NoSigningKey(f"the file of PAGEWARDEN_PROOF_KEY_FILE: {fault}") from None


def bundle_of(fleet: FleetReading, judgement: Judgement, *, granted_at: datetime) -> str:
    """Answer the signed proof of a pass as one DSSE envelope; empty where it cannot be signed.

    A proof without a bundle stands here all the same: it only cannot be shown elsewhere.
    """
    try:
        payload = statement_of(fleet, judgement.document(), issuer=issuer(), issued_at=granted_at)
        return sign(payload, _private_key())
    except (NoSigningKey, BadKey, ValueError, TypeError) as fault:
        log.warning("the proof is not signed: %s", fault)
        return ""


def _private_key() -> bytes:
    if not settings.PROOF_KEY_FILE:
        raise NoSigningKey("no signing key is set: name its file in PAGEWARDEN_PROOF_KEY_FILE")
    try:
        return Path(settings.PROOF_KEY_FILE).read_bytes()
    except OSError as fault:
        raise NoSigningKey(
            f"the file of PAGEWARDEN_PROOF_KEY_FILE cannot be read: {fault.strerror}"
        ) from None
