"""The byte tokenizer: one token a byte, so that bytes count as tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

BYTES = 256
BOS = 256
VOCAB_SIZE = 512
"""Ids 257 to 511 mean nothing here; they are accepted because the recorded prompts use them."""

_UNKNOWN = "\ufffd".encode()


def encode(text: str) -> list[int]:
    """Answer the token ids of a text, without special tokens."""
    return list(text.encode("utf-8", "replace"))


def decode(ids: Iterable[int]) -> str:
    """Answer the text of any token ids; what is no text becomes U+FFFD, never an error."""
    raw = bytearray()
    for token in ids:
        if 0 <= token < BYTES:
            raw.append(token)
        elif token != BOS:
            raw += _UNKNOWN
    return raw.decode("utf-8", "replace")


def first_unknown(ids: Sequence[int]) -> int | None:
    """Answer the first id outside the vocabulary, or None."""
    return next((token for token in ids if not 0 <= token < VOCAB_SIZE), None)
