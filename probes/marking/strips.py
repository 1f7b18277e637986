"""Reads a text in every way in which a code may stand in it: as it is, in base 64, in hex."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from probes.marking.alphabet import (
    BETWEEN,
    BREAK,
    READINGS,
    Bytes,
    Places,
    ascii_bytes,
    places_in,
    read_text,
)
from probes.marking.evidence import View
from probes.marking.outline import Excerpt, Outline, base64_candidates, hex_candidates, outline_of
from probes.marking.sieve import (
    BASE64_AROUND,
    BASE64_BETWEEN,
    BASE64_GROUPS,
    HEX_AROUND,
    HEX_BETWEEN,
    HEX_PAIRS,
    ROLES,
    Region,
    Sieve,
)

_INVALID: Final = 0x40
_SEXTET_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_GROUP: Final = 4
_BYTES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One reading of a text: values below 32 or BREAK, and where each of them came from.

    ``excerpt`` is what of it may hold a seed, ``values`` answers all of it, ``size`` of them.
    ``spans`` answers the first and the last place in the original text of what stands from some
    values to others.
    """

    view: View
    size: int
    excerpt: Excerpt
    values: Callable[[], Bytes]
    spans: Callable[[Places, Places], tuple[Places, Places]]


def strips_of(text: str, sieve: Sieve) -> Iterator[Strip]:
    """Answer every reading of a text that may hold a code."""
    raw = ascii_bytes(text)
    outline = outline_of(raw)
    yield _plain_strip(text, outline)
    if not outline.views:
        return
    regions = sieve.regions_in(raw)
    if regions[View.BASE64]:
        yield from _base64_strips(_Packed.of(raw, regions[View.BASE64], BASE64_BETWEEN, b"!"))
    if regions[View.HEX]:
        yield from _hex_strips(_Packed.of(raw, regions[View.HEX], HEX_BETWEEN, b"g"))


def _plain_strip(text: str, outline: Outline) -> Strip:
    """Answer the text as it is, without what may stand between characters of a code."""

    def spans(firsts: Places, lasts: Places) -> tuple[Places, Places]:
        places = places_in(text)
        return places[firsts], places[lasts]

    if not text.isascii():
        return _strip(View.PLAIN, read_text(text), spans)
    return Strip(
        view=View.PLAIN,
        size=len(outline.packed),
        excerpt=outline.excerpt,
        values=outline.values,
        spans=spans,
    )


def _strip(
    view: View, values: Bytes, spans: Callable[[Places, Places], tuple[Places, Places]]
) -> Strip:
    """Answer a strip of which nothing is left out."""
    return Strip(
        view=view,
        size=len(values),
        excerpt=Excerpt(values=values),
        values=lambda: values,
        spans=spans,
    )


def _sextets() -> bytes:
    table = bytearray([_INVALID]) * 256
    for value, letter in enumerate(_SEXTET_LETTERS):
        table[letter] = value
    # Both alphabets; padding stands for nothing and is read as a byte that may stand between.
    for letter, value in zip(b"+-/_=", (62, 62, 63, 63, 0), strict=True):
        table[letter] = value
    return bytes(table)


def _nibbles() -> bytes:
    table = bytearray([_INVALID]) * 256
    for value, letter in enumerate(b"0123456789abcdef"):
        table[letter] = table[ord(chr(letter).upper())] = value
    return bytes(table)


_SEXTETS: Final = _sextets()
_NIBBLES: Final = _nibbles()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packed:
    """Regions of a text, one behind the other, each behind a sign that ends any code.

    ``between`` is what is left out when it is packed.
    """

    raw: bytes
    starts: Places
    lengths: Places
    between: bytes

    @classmethod
    def of(cls, raw: bytes, regions: Sequence[Region], between: bytes, sign: bytes) -> _Packed:
        """Answer the regions of this text."""
        bounds = np.array(regions, np.intp).reshape(-1, 2)
        return cls(
            raw=b"".join(sign + raw[start:end] for start, end in regions),
            starts=bounds[:, 0],
            lengths=bounds[:, 1] - bounds[:, 0],
            between=between,
        )

    def translate(self, table: bytes) -> Bytes:
        """Answer what its characters stand for, without those between."""
        return np.frombuffer(self.raw.translate(table, self.between), np.uint8)

    def origins(self, packed: Places) -> Places:
        """Answer the places in the original text of characters by their packed places."""
        is_between = np.zeros(256, np.bool_)
        is_between[list(self.between)] = True
        kept = np.flatnonzero(~is_between[np.frombuffer(self.raw, np.uint8)])[packed]
        begins = np.cumsum(self.lengths + 1) - self.lengths
        region = np.searchsorted(begins, kept, "right") - 1
        return kept - begins[region] + self.starts[region]


def _base64_strips(packed: _Packed) -> Iterator[Strip]:
    roles = packed.translate(ROLES)
    near = _near(base64_candidates(roles), _GROUP * BASE64_GROUPS, BASE64_AROUND, len(roles))
    if not len(near):
        return
    sextets = packed.translate(_SEXTETS)[near]
    for phase in range(_GROUP):
        usable = (len(sextets) - phase) // _GROUP * _GROUP
        if usable > 0:
            groups = sextets[phase : phase + usable].reshape(-1, _GROUP)
            decoded = np.empty((len(groups), _BYTES), np.uint8)
            for place in range(_BYTES):
                decoded[:, place] = groups[:, place] << (2 * place + 2)
                decoded[:, place] |= groups[:, place + 1] >> (4 - 2 * place)
            broken = (groups[:, :-1] | groups[:, 1:]) & _INVALID != 0
            origins = partial(_origins, packed, near, phase)
            yield _decoded(View.BASE64, decoded, broken, origins)


def _hex_strips(packed: _Packed) -> Iterator[Strip]:
    # The nought before an x is no digit of what follows.
    packed = replace(packed, raw=packed.raw.replace(b"0x", b"xx").replace(b"0X", b"xx"))
    nibbles = packed.translate(_NIBBLES)
    near = _near(hex_candidates(nibbles), 2 * HEX_PAIRS, HEX_AROUND, len(nibbles))
    for phase in range(2) if len(near) else ():
        usable = (len(near) - phase) // 2 * 2
        pairs = nibbles[near[phase : phase + usable]].reshape(-1, 2)
        decoded = pairs[:, :1] << np.uint8(4) | pairs[:, 1:]
        broken = (pairs[:, :1] | pairs[:, 1:]) & _INVALID != 0
        yield _decoded(View.HEX, decoded, broken, partial(_origins, packed, near, phase))


def _origins(packed: _Packed, near: Places, phase: int, places: Places) -> Places:
    """Answer where in the original text characters near candidates came from, from a phase on."""
    return packed.origins(near[places + phase])


def _near(candidates: Places, length: int, around: int, size: int) -> Places:
    """Answer every index within reach of a candidate."""
    if not len(candidates):
        return candidates
    gaps = np.flatnonzero(np.diff(candidates) > 2 * around + length)
    firsts = np.maximum(candidates[np.append(0, gaps + 1)] - around, 0)
    ends = np.minimum(candidates[np.append(gaps, -1)] + length + around, size)
    return np.concatenate(
        [np.arange(first, end) for first, end in zip(firsts.tolist(), ends.tolist(), strict=True)]
    )


def _decoded(
    view: View, decoded: Bytes, broken: NDArray[np.bool_], origins: Callable[[Places], Places]
) -> Strip:
    readings = READINGS[decoded]
    readings[broken] = BREAK
    flat = readings.reshape(-1)
    kept = np.flatnonzero(flat != BETWEEN)
    width = decoded.shape[1]

    def spans(firsts: Places, lasts: Places) -> tuple[Places, Places]:
        # A byte of base 64 begins in one character and ends in the next; so does one of hex.
        begins, ends = (
            group * (width + 1) + place
            for group, place in (np.divmod(kept[indices], width) for indices in (firsts, lasts))
        )
        return origins(begins), origins(ends + 1)

    return _strip(view, flat[kept], spans)
