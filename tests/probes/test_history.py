"""A node's history: every change of its identity, no throughput, restarts by what shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet.reading import Load, Rank, Reading
from fleet.snapshot import reading_document
from probes.history import HistoryLine, changes_between, history_line
from tests.probes.builders import TAKEN_AT, unified

WORDS = st.text("abcz019.-", max_size=6)
FIGURES = st.none() | st.integers(0, 10**9)
IDENTITIES = st.fixed_dictionaries(
    {
        "version": st.none() | WORDS,
        "pool": FIGURES,
        "context": FIGURES,
        "page_size": FIGURES,
        "allow_auto_truncate": st.none() | st.booleans(),
        "flags": st.dictionaries(st.sampled_from(["a", "b"]), st.none() | WORDS),
        "started": st.none() | WORDS,
        "ranks": st.lists(FIGURES, max_size=3).map(
            lambda pools: tuple(
                Rank(index=place, token_capacity=pool) for place, pool in enumerate(pools)
            )
        ),
    }
)
THROUGHPUT = st.fixed_dictionaries(
    {
        "counters": st.dictionaries(st.sampled_from(["c", "d"]), st.floats(0, 1e9)),
        "load": st.builds(Load, running=FIGURES, waiting=FIGURES, used_tokens=FIGURES),
    }
)


def stored(reading: Reading) -> dict[str, Any]:
    """Answer the document as it comes back from the database."""
    document = json.loads(json.dumps(reading_document(reading)))
    assert isinstance(document, dict)
    return document


def line(before: Reading, after: Reading) -> HistoryLine:
    return history_line(node="n", at=TAKEN_AT, before=stored(before), after=stored(after))


@given(IDENTITIES, IDENTITIES)
def test_a_change_shows_exactly_where_the_fingerprint_differs(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    before, after = unified(**one), unified(**other)
    changes = changes_between(stored(before), stored(after))
    assert bool(changes) == (before.fingerprint != after.fingerprint)
    assert all(change.before != change.after for change in changes)
    back = changes_between(stored(after), stored(before))
    assert [(c.name, c.after, c.before) for c in back] == [
        (c.name, c.before, c.after) for c in changes
    ]


@given(IDENTITIES, THROUGHPUT, THROUGHPUT)
def test_throughput_is_never_a_change(
    who: dict[str, Any], then: dict[str, Any], now: dict[str, Any]
) -> None:
    changes = changes_between(stored(unified(**who, **then)), stored(unified(**who, **now)))
    assert changes == []


def test_the_same_flags_with_another_pool_is_a_change_with_both_figures() -> None:
    after = unified(pool=19_000, ranks=(Rank(index=0, token_capacity=19_000),), started="again")
    found = line(unified(), after)
    shown = {change.name: (change.before, change.after) for change in found.changes}
    assert shown["pool"] == ("20,480", "19,000")
    assert shown["rank 0.token_capacity"] == ("20,480", "19,000")
    assert "started" not in shown
    assert "start times" in found.restart


def test_a_flag_that_changes_is_named_by_its_own_name() -> None:
    after = replace(unified(), flags={"kv_canary": "full"})
    (change,) = line(unified(), after).changes
    assert (change.name, change.before, change.after) == ("flags.kv_canary", "not read", "full")


def test_a_restart_shows_by_start_seed_or_fallen_counters() -> None:
    assert line(unified(), unified(started="later")).restart == "its start times are others"
    before = unified(random_seed="1", started=None)
    assert line(before, replace(before, random_seed="2")).restart == "its random seed is another"
    counted = unified(counters={"requests": 10.0})
    fallen = line(counted, unified(counters={"requests": 2.0}))
    assert fallen.restart == "its counter requests fell"
    assert fallen.is_silent
    assert line(counted, unified(counters={"requests": 11.0})).restart == ""
    assert line(counted, unified(counters={})).restart == ""


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["ranks", "flags", "counters", "pool"]), inner)
        ),
        max_leaves=12,
    )
)
def test_no_stored_document_makes_it_raise(odd: object) -> None:
    document = odd if isinstance(odd, dict) else {"ranks": odd, "flags": odd, "counters": odd}
    history_line(node="n", at=TAKEN_AT, before=document, after=stored(unified()))
    history_line(node="n", at=TAKEN_AT, before=stored(unified()), after=document)
