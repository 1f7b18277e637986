"""All that a round plants and looks for: codes, streams of words, invented facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from probes.markers import Hit, MarkerIndex, MarkerKey
from probes.marking.evidence import Found
from probes.marking.facts import FactIndex
from probes.marking.words import WordIndex


class Finder(Protocol):
    """Finds what was planted in any text; never raises."""

    def search(self, text: str) -> tuple[Hit, ...]:
        """Answer whole codes and unchanged fragments as they stand."""
        ...

    def find(self, text: str) -> Found:
        """Answer all that a text holds of what was planted, in every view, weighed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The indexes of one round, asked as one."""

    codes: MarkerIndex
    words: WordIndex
    facts: FactIndex

    @classmethod
    def of(cls, secret: bytes) -> Catalogue:
        """Answer empty indexes under a secret."""
        return cls(
            codes=MarkerIndex(MarkerKey(secret)), words=WordIndex(secret), facts=FactIndex(secret)
        )

    def search(self, text: str) -> tuple[Hit, ...]:
        """Answer whole codes and unchanged fragments as they stand."""
        return self.codes.search(text)

    def find(self, text: str) -> Found:
        """Answer what each index finds; one that finds enough by itself is enough."""
        found = [self.codes.find(text), self.words.find(text), self.facts.find(text)]
        findings = [finding for one in found for finding in one.findings]
        return Found(
            findings=tuple(sorted(findings, key=lambda one: (one.offset, -one.net_bits))),
            runs=tuple(run for one in found for run in one.runs),
        )
