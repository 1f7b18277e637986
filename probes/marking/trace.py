"""Traces a string from anywhere: whose codes, words and facts are in it."""

from __future__ import annotations

from probes.marking.evidence import Found, weigh
from probes.marking.facts import FactIndex
from probes.marking.search import MarkerIndex
from probes.marking.words import WordIndex


def trace(
    text: str,
    index: MarkerIndex,
    *,
    words: WordIndex | None = None,
    facts: FactIndex | None = None,
) -> Found:
    """Answer all markers in a string, in order of place; evidence of every kind adds up.

    Whole codes and whole blocks of words are known by their tag alone, so an index that was told
    of nothing is enough for them; fragments and facts need one that knows them. Never raises.
    """
    parts = [index.find(text)]
    parts += [one.find(text) for one in (words, facts) if one is not None]
    findings = [finding for part in parts for finding in part.findings]
    effort = parts[0].effort
    for part in parts[1:]:
        effort += part.effort
    return weigh(findings, effort)
