"""The search for markers, in all views, against one pass of ahocorasick_rs over the same text.

Ratios of CPU time inside one run. The peer looks for 100,000 whole codes and for nothing else.
"""

from __future__ import annotations

import argparse
import base64
import random
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench._table import Row, table_of
from common.exits import EXIT_FAIL, EXIT_PASS, EXIT_TOOL
from probes.marking.alphabet import ALPHABET
from probes.marking.code import Marker, MarkerKey
from probes.marking.lexicon import WORDS
from probes.marking.search import MarkerIndex
from probes.marking.sieve import Portable, Sieve, best_sieve

try:
    import ahocorasick_rs

    HAS_PEER = True
except ImportError:
    HAS_PEER = False

KEY: Final = MarkerKey(b"a secret of the benchmark")
#: Source: issue 4, "search of all views for 100,000 markers".
MARKERS: Final = 100_000
FEW: Final = 1_000
_PAGES: Final = 1_000
_SIZE: Final = 1_000_000
_AGAINST_PEER: Final = 0.5
_AGAINST_FEW: Final = 3.0
_COMMON: Final = tuple(
    f"{one}{two}"
    for one in ("the", "of", "an", "to", "wi", "fo", "re", "mo", "ho", "s")
    for two in ("", "s", "ir", "re", "th", "er", "me", "ld")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured: markers, the smaller number, characters of text, rounds."""

    markers: int
    few: int
    size: int
    rounds: int


def answers(chance: random.Random, size: int) -> str:
    """Answer what models write: words and figures, a list, a line of code, an id now and then."""
    makers: dict[Callable[[], str], int] = {
        lambda: chance.choice(_COMMON): 60,
        lambda: chance.choice(WORDS): 33,
        lambda: f"{chance.randrange(10_000):,}{chance.choice(['', ' %', '.5', ' ms'])}": 4,
        lambda: chance.choice([".\n\n", ",", ":\n- ", "**note**", "`max_tokens=256`"]): 2,
        lambda: chance.choice([str(uuid.UUID(int=chance.getrandbits(128))), "v0.5.19"]): 1,
    }
    kinds = chance.choices(list(makers), list(makers.values()), k=size)
    pieces, length = [], 0
    for kind in kinds:
        pieces.append(kind())
        length += len(pieces[-1]) + 1
        if length > size:
            break
    return " ".join(pieces)[:size]


def ids(chance: random.Random, size: int) -> str:
    """Answer what is hardest to search: nothing but random ids."""
    makers: tuple[Callable[[], str], ...] = (
        lambda: chance.randbytes(16).hex(),
        lambda: "".join(chance.choices(ALPHABET, k=26)),
        lambda: base64.b64encode(chance.randbytes(33)).decode(),
        lambda: str(uuid.UUID(int=chance.getrandbits(128))),
    )
    # The shortest is a code of 26 characters.
    pieces = [chance.choice(makers)() for _ in range(size // 26 + 1)]
    return " ".join(pieces)[:size]


TEXTS: Final = {"answers": answers, "ids": ids}


def live(count: int) -> list[Marker]:
    """Answer that many markers, a thousand pages to a request."""
    return [
        Marker(tenant=1, request=place // _PAGES, page=place % _PAGES) for place in range(count)
    ]


class Bench:
    """Measures all rows over the same markers and the same texts."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        chance = random.Random(1)  # noqa: S311 - it makes no secret
        self._texts = {name: make(chance, plan.size) for name, make in TEXTS.items()}
        self._many = live(plan.markers)
        self._sieves: dict[str, Sieve] = {"portable": Portable()}
        best = best_sieve()
        if not isinstance(best, Portable):
            self._sieves = {"hyperscan": best, **self._sieves}

    def rows(self) -> list[Row]:
        """Answer every row."""
        peers = self._peers()
        rows = []
        for name, sieve in self._sieves.items():
            many, few = (
                MarkerIndex(KEY, self._many[:count], sieve=sieve)
                for count in (self._plan.markers, self._plan.few)
            )
            for kind, text in self._texts.items():
                rows += self._rows_of(f"{kind}, {name}", text, (many, few), peers)
        return rows

    def _rows_of(
        self,
        what: str,
        text: str,
        indexes: tuple[MarkerIndex, MarkerIndex],
        peers: Sequence[Callable[[bytes], object]],
    ) -> list[Row]:
        many, few = indexes
        folded, plain = text.lower().encode(), text.encode()
        works: list[Callable[[], object]] = [lambda: many.find(text), lambda: few.find(text)]
        for peer, said in zip(peers, (folded, plain), strict=False):
            works.append(lambda peer=peer, said=said: peer(said))  # type: ignore[misc]
        spent = _cpu_s(works, self._plan.rounds)
        peer_s = spent[2] if peers else None
        how = f"{_ms(spent[0])}"
        if peer_s is not None:
            how += f" against {_ms(peer_s)} ({_ms(spent[3])} as codes stand)"
        return [
            Row(
                what=f"{what}: all views against one pass of the peer",
                ratio=None if peer_s is None else spent[0] / peer_s,
                goal=_AGAINST_PEER,
                how=how,
            ),
            Row(
                what=f"{what}: {self._plan.markers:,} markers against {self._plan.few:,}",
                ratio=spent[0] / spent[1],
                goal=_AGAINST_FEW,
                how=f"{_ms(spent[0])} against {_ms(spent[1])}",
            ),
        ]

    def _peers(self) -> list[Callable[[bytes], object]]:
        """Answer the peer with codes in lower case, for lower-case text, and as they stand."""
        if not HAS_PEER:
            return []
        codes = [KEY.write(marker).encode() for marker in self._many]
        return [
            ahocorasick_rs.BytesAhoCorasick(
                patterns, implementation=ahocorasick_rs.Implementation.ContiguousNFA
            ).find_matches_as_indexes
            for patterns in ([code.lower() for code in codes], codes)
        ]


def _cpu_s(works: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Answer the best CPU time of each, taken in turn so that all share the weather."""
    best = [float("inf")] * len(works)
    # A first round, which does not count, settles what is made once.
    for turn in range(rounds + 1):
        for place, work in enumerate(works):
            before = time.process_time()
            work()
            if turn:
                best[place] = min(best[place], time.process_time() - before)
    return best


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def main(argv: Sequence[str]) -> int:
    """Measure, print the table, and answer 0 where no goal is missed."""
    parser = argparse.ArgumentParser(prog="bench marker_search", description=__doc__)
    parser.add_argument("--markers", type=int, default=MARKERS)
    parser.add_argument("--few", type=int, default=FEW, help="the smaller number of markers")
    parser.add_argument("--size", type=int, default=_SIZE, help="characters of text")
    parser.add_argument("--rounds", type=int, default=7, help="of which the best counts")
    wish = parser.parse_args(argv)
    plan = Plan(markers=wish.markers, few=wish.few, size=wish.size, rounds=wish.rounds)
    try:
        rows = Bench(plan).rows()
    except (ValueError, MemoryError) as fault:
        sys.stderr.write(f"not measured: {fault}\n")
        return EXIT_TOOL
    sys.stdout.write(f"{table_of(rows)}\n")
    return EXIT_FAIL if any(row.verdict == "MISSED" for row in rows) else EXIT_PASS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
