"""Encrypts keys and answers at rest, each bound to its table, row and column (safety rule 2)."""

from __future__ import annotations

import base64
import binascii
import functools
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db import models

_NONCE_BYTES = 12
_KEY_BYTES = 32


class SealBroken(Exception):
    """A sealed value does not open: another key, another row, or altered bytes."""


def new_key() -> str:
    """Answer a fresh sealing key as text for its file."""
    return base64.b64encode(os.urandom(_KEY_BYTES)).decode()


@functools.lru_cache(maxsize=4)
def _cipher(key_file: str) -> AESGCM:
    try:
        key = base64.b64decode(Path(key_file).read_text(encoding="ascii").strip(), validate=True)
    except (OSError, binascii.Error, UnicodeDecodeError):
        raise SealBroken("the sealing key file cannot be read") from None
    if len(key) != _KEY_BYTES:
        raise SealBroken("the sealing key file does not hold 32 bytes in base64")
    return AESGCM(key)


def seal(plain: str, *, place: str) -> bytes:
    """Answer nonce and ciphertext of a text that belongs at ``place``. Raises SealBroken."""
    nonce = os.urandom(_NONCE_BYTES)
    cipher = _cipher(settings.SEALING_KEY_FILE)
    return nonce + cipher.encrypt(nonce, plain.encode(), place.encode())


def unseal(sealed: bytes, *, place: str) -> str:
    """Answer the text that was sealed for ``place``. Raises SealBroken."""
    cipher = _cipher(settings.SEALING_KEY_FILE)
    try:
        plain = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place.encode())
    except (InvalidTag, ValueError):
        raise SealBroken(f"the sealed value of {place} does not open") from None
    return plain.decode()


class Sealed:
    """A text attribute of a model whose column holds only ciphertext.

    The row's primary key must be known before the first write (a UUID default does), since the
    ciphertext is bound to it. Reading raises SealBroken; an empty column reads as "".
    """

    def __init__(self, column: str) -> None:
        self.column = column

    def _place(self, row: models.Model) -> str:
        return f"{row._meta.db_table}:{row.pk}:{self.column}"  # noqa: SLF001 - Django's public name

    def __get__(self, row: Any, owner: type[Any]) -> str:  # noqa: ANN401 - a descriptor serves any model
        sealed = getattr(row, self.column)
        return unseal(bytes(sealed), place=self._place(row)) if sealed else ""

    def __set__(self, row: Any, plain: str) -> None:  # noqa: ANN401 - as above
        setattr(row, self.column, seal(plain, place=self._place(row)) if plain else b"")
