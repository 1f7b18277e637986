"""Which processes were seen to refuse in a canary round; what that proves is for a gate to say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from fleet.reading import Reading

_REFUSAL = "refusal"
_REFUSED = "refused"
#: A round through a router is certain to have reached a node only where there was one pair.
_ONE_PAIR = 2


def refusals_exercised(readings: Iterable[Reading], rounds: Iterable[object]) -> frozenset[str]:
    """Answer the nodes of which a round saw every refusal that it wanted, as the process they are.

    ``rounds`` are rounds as ``canary --json`` publishes them; any other shape says nothing. They
    are bound by the fingerprint of the process, so a node in which no restart shows is never named.
    """
    seen = {one for document in rounds for one in _prints(document)}
    return frozenset(
        one.node for one in readings if one.restart_is_visible and process_print(one) in seen
    )


def process_print(reading: Reading) -> str:
    """Answer the fingerprint of the process alone, whatever people vouch for of it."""
    return replace(reading, attested={}).fingerprint


def _prints(document: object) -> Iterator[object]:
    """Answer the fingerprints of the nodes that a round is certain to have reached."""
    if not isinstance(document, Mapping) or not _all_refused(document.get("rows")):
        return
    named = document.get("fingerprints")
    if not isinstance(named, Mapping):
        return
    pair = str(document.get("target")).removeprefix("pair ").split("/")
    for node, fingerprint in named.items():
        by_pair = document.get("way") == "pair" and node in pair
        by_router = document.get("way") == "router" and len(named) == _ONE_PAIR
        if isinstance(fingerprint, str) and (by_pair or by_router):
            yield fingerprint


def _all_refused(rows: object) -> bool:
    outcomes = [
        row.get("outcome")
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, Mapping) and row.get("duty") == _REFUSAL
    ]
    return bool(outcomes) and all(one == _REFUSED for one in outcomes)
