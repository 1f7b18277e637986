"""Markers: short codes that name the tenant, the request and the page that they were planted in."""

from __future__ import annotations

import hmac

from probes.marking.alphabet import ALPHABET, MARKER_CHARACTERS
from probes.marking.code import PAGE_BITS, REQUEST_BITS, TENANT_BITS, Marker, MarkerKey
from probes.marking.search import FRAGMENT_CHARACTERS, Hit, MarkerIndex

__all__ = [
    "ALPHABET",
    "FRAGMENT_CHARACTERS",
    "MARKER_CHARACTERS",
    "PAGE_BITS",
    "REQUEST_BITS",
    "TENANT_BITS",
    "Hit",
    "Marker",
    "MarkerIndex",
    "MarkerKey",
    "as_written",
    "derive_request",
    "name_request",
]

#: Every ASCII character as the alphabet would write it: upper case, and O, I, L as Crockford reads
#: them. One character stays one character, so that offsets hold.
_AS_WRITTEN = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzILO",
    "ABCDEFGH1JK1MN0PQRSTUVWXYZ110",
)


def as_written(text: str) -> str:
    """Answer a text as the alphabet would write it, character for character."""
    return text.translate(_AS_WRITTEN)


def derive_request(seed: bytes, ordinal: int) -> int:
    """Answer the nonce of the request with this number in a round of this seed."""
    digest = hmac.digest(seed, b"pagewarden request %d" % ordinal, "sha256")
    return int.from_bytes(digest[:3], "big")


def name_request(request: int) -> str:
    """Answer a request's nonce as pages and rows show it."""
    return f"{request:06x}"
