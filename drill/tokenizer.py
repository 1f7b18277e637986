"""The byte tokenizer: one token a byte, so that bytes count as tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

BYTES = 256
BOS = 256
ROLES = {"user": 257, "assistant": 258, "system": 259}
"""One token opens each message, as in the chat template of the recorded model."""
VOCAB_SIZE = 512
"""Ids 260 to 511 mean nothing here; they are accepted because the recorded prompts use them."""

_SPECIAL = {BOS, *ROLES.values()}
_UNKNOWN = "\ufffd".encode()


def encode(text: str) -> list[int]:
    """Answer the token ids of a text, without special tokens."""
    return list(text.encode("utf-8", "replace"))


def encode_chat(messages: Iterable[tuple[str, str]]) -> list[int]:
    """Answer the token ids of messages, each a role and its text, and of the answer's opening."""
    ids: list[int] = []
    for role, text in messages:
        opening = ROLES.get(role)
        ids += encode(f"<|{role}|>") if opening is None else [opening]
        ids += encode(text)
    return [*ids, ROLES["assistant"]]


def decode(ids: Iterable[int]) -> str:
    """Answer the text of any token ids; what is no text becomes U+FFFD, never an error.

    Special tokens are skipped, as the engine does by default.
    """
    raw = bytearray()
    for token in ids:
        if 0 <= token < BYTES:
            raw.append(token)
        elif token not in _SPECIAL:
            raw += _UNKNOWN
    return raw.decode("utf-8", "replace")


def first_unknown(ids: Sequence[int]) -> int | None:
    """Answer the first id outside the vocabulary, or None."""
    return next((token for token in ids if not 0 <= token < VOCAB_SIZE), None)
