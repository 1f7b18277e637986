"""Hash chain of an append-only list: each link commits to all before it, over digests of bodies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

#: What the first link of every chain follows.
GENESIS = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One entry of a chain: its place, its header fields and the hashes it carries."""

    sequence: int
    header: dict[str, str]
    body_digest: str
    previous: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where a chain stops holding, and why."""

    sequence: int
    reason: str


def digest_body(body: object) -> str:
    """Answer the SHA-256, in hex, of a body's canonical JSON."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def digest_link(*, sequence: int, header: dict[str, str], body_digest: str, previous: str) -> str:
    """Answer the hash that a link must carry.

    It runs over the digest of the body, never over the body: a sealed body can be erased and the
    chain still holds.
    """
    return digest_body(
        {"sequence": sequence, "header": header, "body": body_digest, "previous": previous}
    )


def verify(links: Iterable[Link]) -> Break | None:
    """Answer the first break of a chain in order of sequence, or None where it holds."""
    previous = GENESIS
    for expected, link in enumerate(links, start=1):
        if link.sequence != expected:
            return Break(sequence=expected, reason=f"entry {expected} is missing")
        if link.previous != previous:
            return Break(sequence=expected, reason="it does not follow the entry before it")
        wanted = digest_link(
            sequence=link.sequence,
            header=link.header,
            body_digest=link.body_digest,
            previous=link.previous,
        )
        if link.digest != wanted:
            return Break(sequence=expected, reason="its contents differ from its hash")
        previous = link.digest
    return None
