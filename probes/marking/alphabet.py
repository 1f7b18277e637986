"""The alphabet of codes, and how any text is read in it: case, look-alikes, what stands between."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]

#: Crockford's base 32: no I, L, O, U. Source: detection.md A3, 5 bits a character.
ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
#: 120 bits. Source: detection.md A3, enough for 1e9 live markers in an answer of 1 MB.
MARKER_CHARACTERS: Final = 24
BITS_A_CHARACTER: Final = 5

#: What a character is read as where it is no part of a code: it ends a run.
BREAK: Final = 0x80
#: What a character is read as where it may stand between two characters of a code.
BETWEEN: Final = 0x40

_FOLDED: Final = {"I": "1", "L": "1", "O": "0"}
_LOOK_ALIKES: Final = {
    # Cyrillic, upper and lower case.
    **dict(zip("АВЕКМНОРСТХЅІЈҮԌԚԜӀ", "ABEKMH0PCTXS1JYGQW1", strict=True)),
    **dict(zip("аеорсхуѕіјһԁԛԝҽв", "AE0PCXYS1JHDQWEB", strict=True)),
    # Greek, upper and lower case.
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοινρκγ", "ABEZH1KMN0PTYX01VPKY", strict=True)),
    # Letters and signs that fonts draw alike.
    **dict(zip("ıǀØøÐ∅ߋ", "1100000", strict=True)),
}
#: Where single characters stand for ASCII ones: up to enclosed letters, full width, mathematical.
_COMPATIBLE: Final = (range(0x80, 0x2500), range(0xFF00, 0xFFF0), range(0x1D400, 0x1D800))
_LAST: Final = 0x1FFFF
_ASCII: Final = 0x80
#: White space, marks on a letter, dashes, what is not seen: it splits a code and hides nothing.
_SPLITTING: Final = frozenset({"Zs", "Zl", "Zp", "Cf", "Cc", "Mn", "Me", "Pd", "Pc"})


def _reading_of(character: str) -> int:
    upper = _LOOK_ALIKES.get(character) or character.upper()
    value = ALPHABET.find(_FOLDED.get(upper, upper)) if len(upper) == 1 else -1
    if value >= 0:
        return value
    if ord(character) < _ASCII:
        return BREAK if character.isalnum() else BETWEEN
    return BETWEEN if unicodedata.category(character) in _SPLITTING else BREAK


def _readings() -> Iterator[tuple[int, int]]:
    for code in range(_ASCII):
        yield code, _reading_of(chr(code))
    for codes in _COMPATIBLE:
        for code in codes:
            plain = chr(code)
            if plain not in _LOOK_ALIKES:
                normal = unicodedata.normalize("NFKC", plain)
                # A blank that decomposes with an accent is no blank.
                plain = normal if len(normal) == 1 else plain
            yield code, _reading_of(plain)


def _table() -> Bytes:
    table = np.full(_LAST + 1, BREAK, np.uint8)
    for code, reading in _readings():
        table[code] = reading
    # Variation selectors, the byte order mark, and what stands for an unreadable character.
    table[0xFE00:0xFE10] = BETWEEN
    table[0xFEFF] = BETWEEN
    return table


#: Reading of every code point; beyond the last one nothing is alike.
READINGS: Final = _table()
_ASCII_READINGS: Final = READINGS[:256].tobytes()
#: All that is left out where a text is ASCII: what is no letter and no digit.
ASCII_BETWEEN: Final = bytes(np.flatnonzero(READINGS[:_ASCII] == BETWEEN).tolist())


def code_points(text: str) -> NDArray[np.uint32]:
    """Answer the code points of a text, lone surrogates too."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def ascii_bytes(text: str) -> bytes:
    """Answer one byte a character; what is not ASCII becomes a question mark."""
    return text.encode("ascii", "replace")


def read_text(text: str) -> Bytes:
    """Answer what a text reads as, without what may stand between: values below 32, and BREAK."""
    if text.isascii():
        packed = text.encode("ascii").translate(_ASCII_READINGS, ASCII_BETWEEN)
        return np.frombuffer(packed, np.uint8)
    readings = read_points(code_points(text))
    # Far faster than to index by the condition.
    return np.compress(readings != BETWEEN, readings)


def read_points(points: NDArray[np.uint32]) -> Bytes:
    """Answer the reading of every code point, those between included."""
    readings: Bytes = READINGS[np.minimum(points, _LAST)]
    return readings


def places_in(text: str) -> Places:
    """Answer where in the text each entry of `read_text` stands."""
    return np.flatnonzero(read_points(code_points(text)) != BETWEEN)


def values_of(code: str) -> Bytes:
    """Answer the values of a code in the alphabet. Raises ValueError where it has other letters."""
    values = READINGS[code_points(code)]
    if (values >= len(ALPHABET)).any():
        raise ValueError("a code has only characters of its alphabet")
    return values
