"""A signed proof: a passing judgement bound to the nodes' fingerprints, in a DSSE envelope.

Source: DSSE 1.0.2 (protocol and envelope), in-toto Statement 1, Ed25519 by RFC 8032.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fleet.jsontext import NotJson, parse_json
from fleet.reading import FleetReading, Reading
from probes.judgement import JudgementDocument

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:pagewarden:gate-proof:1"
LARGEST_BYTES: Final = 16 * 1024 * 1024
#: How long a proof holds (design, "Words").
LASTS: Final = timedelta(hours=24)
#: Clocks of two machines may differ by this much.
SKEW: Final = timedelta(minutes=5)


class BadKey(ValueError):
    """The text is no Ed25519 key of the kind that is needed; it is never quoted."""


class BrokenProof(ValueError):
    """The envelope is none, or nobody with this key signed what is in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedNode:
    """One node as it was when it passed. ``counters`` only grow while its process lives."""

    name: str
    url: str
    role: str
    engine: str
    version: str | None
    fingerprint: str
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateProof:
    """What a proof says. ``advertised`` in tokens, ``headroom`` a factor, moments aware UTC."""

    nodes: tuple[ProvedNode, ...]
    verdict: str
    headroom: Decimal
    advertised: int | None
    issued_at: datetime
    expires_at: datetime
    issuer: str


def nodes_of(readings: Iterable[Reading]) -> tuple[ProvedNode, ...]:
    """Answer what binds a proof to these readings."""
    return tuple(
        ProvedNode(
            name=one.node,
            url=one.url,
            role=str(one.role),
            engine=one.engine,
            version=one.version,
            fingerprint=one.fingerprint,
            counters=dict(one.counters),
        )
        for one in readings
    )


def statement_of(
    fleet: FleetReading, judgement: JudgementDocument, *, issuer: str, issued_at: datetime
) -> bytes:
    """Answer the in-toto statement of a judgement over these readings, as bytes to be signed."""
    nodes = nodes_of(fleet.readings)
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": one.name, "digest": {"sha256": one.fingerprint}} for one in nodes],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "issuer": issuer,
            "issuedAt": issued_at.isoformat(),
            "expiresAt": (issued_at + LASTS).isoformat(),
            "headroom": str(fleet.headroom),
            "advertised": fleet.advertised,
            "nodes": [
                {
                    "name": one.name,
                    "url": one.url,
                    "role": one.role,
                    "engine": one.engine,
                    "version": one.version,
                    "fingerprint": one.fingerprint,
                    "counters": dict(one.counters),
                }
                for one in nodes
            ],
            "judgement": judgement,
        },
    }
    return json.dumps(statement, sort_keys=True, allow_nan=False).encode()


def pae(payload_type: str, payload: bytes) -> bytes:
    """Answer what is signed: DSSE's pre-authentication encoding of type and payload."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def check_signing_key(private_pem: bytes) -> None:
    """Raise BadKey where nothing can be signed with it."""
    _private_key(private_pem)


def sign(payload: bytes, private_pem: bytes) -> str:
    """Answer the envelope, as one JSON object. Raises BadKey."""
    key = _private_key(private_pem)
    signature = key.sign(pae(PAYLOAD_TYPE, payload))
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {"keyid": _key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}
        ],
    }
    return json.dumps(envelope, indent=1) + "\n"


def public_key_of(private_pem: bytes) -> str:
    """Answer the public half of a private key, as PEM. Raises BadKey."""
    return _public_text(_private_key(private_pem))


def open_proof(envelope: bytes, public_pem: bytes) -> GateProof:
    """Answer what somebody with this key signed. Raises BadKey, BrokenProof."""
    key = _public_key(public_pem)
    if len(envelope) > LARGEST_BYTES:
        raise BrokenProof("it is larger than a proof can be")
    document = _document(envelope)
    payload_type = document.get("payloadType")
    if payload_type != PAYLOAD_TYPE:
        raise BrokenProof("its payload is of another type than a proof's")
    payload = _decoded(document.get("payload"))
    message = pae(PAYLOAD_TYPE, payload)
    signatures = document.get("signatures")
    for one in signatures if isinstance(signatures, list) else []:
        if isinstance(one, dict) and _is_signed(key, one.get("sig"), message):
            return _parse_statement(payload)
    raise BrokenProof("no signature in it is by this key: it was altered, or another key signed it")


def is_envelope(text: bytes) -> bool:
    """Answer whether a file is an envelope of this kind, signed by whomever."""
    try:
        return _document(text).get("payloadType") == PAYLOAD_TYPE
    except BrokenProof:
        return False


def new_keys() -> tuple[str, str]:
    """Answer a fresh private and its public key, both as PEM."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private.decode(), _public_text(key)


def _public_text(key: Ed25519PrivateKey) -> str:
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return public.decode()


def _private_key(pem: bytes) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey("it is no private key in PEM without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKey("it is no Ed25519 key")
    return key


def _public_key(pem: bytes) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey("it is no public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise BadKey("it is no Ed25519 key")
    return key


def _key_id(key: Ed25519PublicKey) -> str:
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()


def _is_signed(key: Ed25519PublicKey, signature: object, message: bytes) -> bool:
    try:
        key.verify(_decoded(signature), message)
    except (InvalidSignature, BrokenProof):
        return False
    return True


def _decoded(value: object) -> bytes:
    """Answer the bytes of standard or URL-safe base64, which DSSE allows both."""
    if not isinstance(value, str):
        raise BrokenProof("a part of it is missing")
    try:
        return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raise BrokenProof("a part of it is no base64") from None


def _document(text: bytes) -> dict[str, object]:
    try:
        document = parse_json(text)
    except NotJson as fault:
        raise BrokenProof(f"it is no JSON: {fault}") from None
    if not isinstance(document, dict):
        raise BrokenProof("it is no JSON object")
    return document


def _parse_statement(payload: bytes) -> GateProof:
    """Answer the proof in a signed payload. Raises BrokenProof for a statement of another kind."""
    document = _document(payload)
    predicate = document.get("predicate")
    if document.get("predicateType") != PREDICATE_TYPE or not isinstance(predicate, dict):
        raise BrokenProof("what is signed is no proof of a gate")
    try:
        advertised = predicate["advertised"]
        return GateProof(
            nodes=tuple(_parse_node(one) for one in predicate["nodes"]),
            verdict=str(predicate["judgement"]["verdict"]),
            headroom=Decimal(predicate["headroom"]),
            advertised=None if advertised is None else int(advertised),
            issued_at=_moment(predicate["issuedAt"]),
            expires_at=_moment(predicate["expiresAt"]),
            issuer=str(predicate["issuer"]),
        )
    except (KeyError, TypeError, ValueError, InvalidOperation, OverflowError):
        raise BrokenProof("what is signed lacks a part that a proof has") from None


def _parse_node(one: Mapping[str, object]) -> ProvedNode:
    counters = one["counters"]
    version = one["version"]
    if not isinstance(counters, dict):
        raise TypeError
    return ProvedNode(
        name=str(one["name"]),
        url=str(one["url"]),
        role=str(one["role"]),
        engine=str(one["engine"]),
        version=None if version is None else str(version),
        fingerprint=str(one["fingerprint"]),
        counters={str(name): float(value) for name, value in counters.items()},
    )


def _moment(value: object) -> datetime:
    moment = datetime.fromisoformat(str(value))
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(UTC)
