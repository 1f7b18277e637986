"""A chain of hashes shows every change, gap and swap."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from common.chain import GENESIS, Link, digest_body, digest_link, verify


def build(bodies: list[str]) -> list[Link]:
    links: list[Link] = []
    previous = GENESIS
    for sequence, body in enumerate(bodies, start=1):
        body_digest = digest_body(body)
        header = {"text": body}
        digest = digest_link(
            sequence=sequence, header=header, body_digest=body_digest, previous=previous
        )
        links.append(
            Link(
                sequence=sequence,
                header=header,
                body_digest=body_digest,
                previous=previous,
                digest=digest,
            )
        )
        previous = digest
    return links


BODIES = st.lists(st.text(), min_size=2, max_size=8)


@given(BODIES)
def test_an_untouched_chain_holds(bodies: list[str]) -> None:
    assert verify(build(bodies)) is None


@given(BODIES, st.data())
def test_a_changed_header_breaks_the_chain_there(bodies: list[str], data: st.DataObject) -> None:
    links = build(bodies)
    at = data.draw(st.integers(0, len(links) - 1))
    links[at] = replace(links[at], header={"text": links[at].header["text"] + "x"})
    found = verify(links)
    assert found is not None
    assert found.sequence == at + 1


@given(BODIES, st.data())
def test_a_removed_entry_breaks_the_chain(bodies: list[str], data: st.DataObject) -> None:
    links = build(bodies)
    at = data.draw(st.integers(0, len(links) - 2))
    del links[at]
    assert verify(links) is not None


def test_an_entry_made_anew_with_a_right_hash_still_breaks_what_follows() -> None:
    links = build(["a", "b", "c"])
    forged = build(["a", "forged"])[1]
    links[1] = forged
    found = verify(links)
    assert found is not None
    assert found.sequence == 3
