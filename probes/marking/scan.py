"""Runs over a strip piece by piece: where live codes have a seed, where codes prove themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from probes.marking.alphabet import MARKER_CHARACTERS, Bytes, Places
from probes.marking.code import SEED_CHARACTERS, Marker, MarkerKey
from probes.marking.outline import Excerpt
from probes.marking.seeds import Keys, SeedTable, keys_at, likely_windows, parts_at, whole_places

#: Windows at a time: what is computed of them stays in the processor's cache.
_BATCH: Final = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """A whole code that its tag proves, and where it begins in the strip."""

    at: int
    marker: Marker
    is_backward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What a scan brings: pairs of a place and an owner of the seed there, and proven codes."""

    places: Places
    owners: NDArray[np.uint32]
    tagged: list[Tagged]
    windows: int
    decodes: int


def scan(excerpt: Excerpt, table: SeedTable, key: MarkerKey) -> Candidates:
    """Answer every candidate of a strip. The work is in proportion to the excerpt's length."""
    values = excerpt.values
    likely = likely_windows(values)
    windows, whole = np.flatnonzero(likely), whole_places(likely)
    places: list[Places] = [np.zeros(0, np.intp)]
    keys: list[Keys] = [np.zeros(0, np.uint64)]
    for first, piece, here in _pieces(values, windows, SEED_CHARACTERS):
        of_piece = keys_at(piece, here)
        passed = table.sift(of_piece)
        places.append(here[passed] + first)
        keys.append(of_piece[passed])
    which, owners = table.look_up(np.concatenate(keys))
    return Candidates(
        places=excerpt.origins(np.concatenate(places)[which]),
        owners=owners,
        tagged=list(_tagged(excerpt, whole, key)),
        windows=len(windows),
        decodes=2 * len(whole),
    )


def _pieces(values: Bytes, places: Places, length: int) -> Iterator[tuple[int, Bytes, Places]]:
    """Answer where each piece begins, its values, and the places in it; each is that long."""
    for first in range(0, len(places), _BATCH):
        batch = places[first : first + _BATCH]
        start = int(batch[0])
        yield start, values[start : int(batch[-1]) + length], batch - start


def _tagged(excerpt: Excerpt, whole: Places, key: MarkerKey) -> Iterator[Tagged]:
    for first, piece, here in _pieces(excerpt.values, whole, MARKER_CHARACTERS):
        parts = parts_at(piece, here)
        for is_backward in (False, True):
            for row in key.pass_check(parts.turned if is_backward else parts).tolist():
                at = int(here[row])
                code = piece[at : at + MARKER_CHARACTERS].tobytes()
                marker = key.read_values(code[::-1] if is_backward else code)
                if marker is not None:
                    (place,) = excerpt.origins(here[[row]] + first).tolist()
                    yield Tagged(at=place, marker=marker, is_backward=is_backward)
