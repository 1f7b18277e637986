"""Exports: whole, in shape whatever the texts hold, without prompts, answers or keys."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from common.chain import Link, verify
from incidents.contract import EXPORTERS
from incidents.entries import Header, digest_content, iso_moment
from incidents.postmortem import (
    CanaryLine,
    ChainState,
    Entry,
    EvidenceLine,
    FigureLine,
    FindingLine,
    GateLine,
    GateSide,
    Impact,
    MarkerLine,
    Moments,
    Person,
    Postmortem,
    Subject,
    Window,
    durations_of,
)

AT = datetime(2026, 9, 9, 8, 25, tzinfo=UTC)
#: How many tables, and which columns each has: derived from the document's sections.
COLUMNS = [2, 3, 2, 4, 6, 5, 11, 3, 7, 5, 2]
HOSTILE = "a | b \\| c \\\\| `d | ` \n# e\r\n| --- |\u2028<script>\x00\x1b[31m\u202e[x](y) $z$ ~~"


def make_postmortem(text: str = "plain") -> Postmortem:
    moments = Moments(
        impact_start_at=datetime(2026, 8, 27, tzinfo=UTC),
        detected_at=AT,
        declared_at=AT + timedelta(hours=4, minutes=57),
    )
    entry = Entry(
        sequence=1,
        occurred_at=AT,
        recorded_at=AT,
        source="run",
        actor=text,
        kind=text,
        text=text,
        supersedes=None,
        superseded_by=2,
        is_erased=False,
        body_digest="",
        previous="",
        digest="",
    )
    side = GateSide(
        audit=3,
        verdict="fail",
        figures=(
            FigureLine(name="pool", value=10_624),
            FigureLine(name="ratio", value=10_624 / 16_384),
            FigureLine(name="danger_band", value=(10_618, 16_383)),
            FigureLine(name=text, value=text),
        ),
    )
    after = replace(side, audit=4, verdict="pass", figures=(FigureLine(name="pool", value=20_480),))
    return Postmortem(
        subject=Subject(
            reference="INC-2026-0001",
            title=text,
            kind="leak",
            status="declared",
            is_restricted=True,
            deployment=text,
            model=text,
            engine="sglang",
        ),
        generated_at=AT + timedelta(days=1),
        people=(Person(name=text, part="commander"),),
        impact=Impact(windows=(Window(start_at=moments.impact_start_at, end_at=None),), basis=text),
        moments=moments,
        durations=durations_of(moments),
        findings=(
            FindingLine(
                check=text,
                target=text,
                kind="leak",
                reason=text,
                first_seen_at=AT,
                resolved_at=None,
            ),
        ),
        first_audit=3,
        last_audit=4,
        gates=(GateLine(check=text, target=text, before=side, after=after),),
        canary=(
            CanaryLine(
                audit=3,
                round=1,
                position=2,
                part="ask",
                tenant=text,
                length=10_618,
                asked_tokens=8,
                status=200,
                prompt_tokens=10_618,
                outcome="answered",
                markers=(MarkerLine(tenant="tenant-a", request="00cafe", page=17),),
            ),
        ),
        actions=(entry,),
        evidence=(
            EvidenceLine(number=1, title=text, sha256="a" * 64, size_bytes=1_234, taken_at=AT),
        ),
        entries=(entry,),
        chain=ChainState(entries=1, head="b" * 64),
        open_questions=(text,),
    )


def render(form: str, postmortem: Postmortem) -> str:
    return EXPORTERS.get(form).render(postmortem)


def tokens_of(markdown: str) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)


def columns_of(markdown: str) -> list[set[int]]:
    """Answer, for each table, the numbers of cells in its lines; a parser would mend wrong ones."""
    tables: list[set[int]] = []
    is_inside = False
    for line in markdown.split("\n"):
        if line.startswith("| ") and not is_inside:
            tables.append(set())
        is_inside = line.startswith("| ")
        if is_inside:
            tables[-1].add(len(re.findall(r"(?<!\\)\|", line)) - 1)
    return tables


def cells_of(tokens: list[Token]) -> list[str]:
    """Answer what the cells of all tables read."""
    return [
        "".join(child.content for child in tokens[place + 1].children or ())
        for place, token in enumerate(tokens)
        if token.type == "td_open"
    ]


def shape_of(tokens: list[Token]) -> list[str]:
    """Answer the blocks of a document, leaving out how many rows there are of what."""
    return [token.type for token in tokens if token.type != "inline"]


def words_of(tokens: list[Token]) -> set[str]:
    """Answer every inline piece that is not plain text, by its kind."""
    return {
        child.type
        for token in tokens
        for child in token.children or ()
        if child.type not in {"text", "code_inline"}
    }


@pytest.mark.parametrize("text", ["plain", HOSTILE, "", "---", "1. x", "# x", "|", "\\", "- [ ] x"])
def test_every_table_keeps_its_columns(text: str) -> None:
    assert columns_of(render("markdown", make_postmortem(text))) == [{one} for one in COLUMNS]


@given(st.text())
def test_no_text_changes_the_shape_of_the_document(text: str) -> None:
    rendered = render("markdown", make_postmortem(text))
    tokens = tokens_of(rendered)
    assert columns_of(rendered) == [{one} for one in COLUMNS]
    assert shape_of(tokens) == shape_of(tokens_of(render("markdown", make_postmortem())))
    assert not words_of(tokens)


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="_"), min_size=1))
def test_a_text_reads_as_it_was_written(text: str) -> None:
    # An underscore reads as a space where the text is the name of a kind or a figure.
    tokens = tokens_of(render("markdown", make_postmortem(text)))
    heading = next(place for place, token in enumerate(tokens) if token.tag == "h1")
    shown = "".join(child.content for child in tokens[heading + 1].children or ())
    assert shown == f"INC-2026-0001: {text}"
    plain = cells_of(tokens_of(render("markdown", make_postmortem())))
    assert cells_of(tokens) == [cell.replace("plain", text) for cell in plain]


def test_no_control_character_reaches_the_document() -> None:
    rendered = render("markdown", make_postmortem(HOSTILE))
    assert not set(rendered) & {"\x00", "\x1b", "\r", "\u2028", "\u202e"}


def test_the_markdown_shows_figures_durations_and_the_chain() -> None:
    rendered = render("markdown", make_postmortem())
    for words in (
        "| declare | from the first finding to the declaration | 4 h 57 min | 17,820 |",
        "| plain | plain | pool | 10,624 | 20,480 |",
        "10,618 to 16,383",
        "| plain | plain | verdict | fail | pass |",
        "tenant-a, request 00cafe, page 17",
        "not yet determined",
        "responders and commanders only",
        "(superseded by entry 2) plain",
        f"hash of the last: `{'b' * 64}`. Every entry is there",
    ):
        assert words in rendered


def test_a_broken_chain_is_said() -> None:
    broken = ChainState(entries=3, head="b" * 64, break_sequence=2, break_reason="it differs")
    assert "It breaks at entry 2: it differs." in render(
        "markdown", replace(make_postmortem(), chain=broken)
    )


def test_the_json_carries_schema_version_and_every_member() -> None:
    document = json.loads(render("json", make_postmortem(HOSTILE)))
    assert (document["schema"], document["version"]) == ("pagewarden.postmortem", 1)
    assert set(document) == {"schema", "version", *(one.name for one in fields(Postmortem))}
    assert document["subject"]["title"] == HOSTILE
    declare = next(one for one in document["durations"] if one["name"] == "declare")
    assert (declare["seconds"], declare["words"]) == (17_820, "4 h 57 min")
    assert document["moments"]["detected_at"] == "2026-09-09T08:25:00.000000+00:00"
    assert document["moments"]["restored_at"] is None


def test_the_chain_can_be_recomputed_from_the_json() -> None:
    plain = make_postmortem()
    header = Header(
        incident="INC-2026-0001",
        occurred_at=AT,
        recorded_at=AT,
        source="run",
        actor="run 1",
        kind="moved",
        supersedes=None,
    )
    body_digest = digest_content(text="done", body={})
    link = Link(
        sequence=1, header=header.fields(), body_digest=body_digest, previous="0" * 64, digest=""
    )
    assert verify([link]) is not None
    told = json.loads(render("json", plain))["entries"][0]
    needed = set(Header.__dataclass_fields__) - {"incident"}
    assert needed | {"sequence", "body_digest", "previous", "digest"} <= set(told)
    assert told["occurred_at"] == iso_moment(AT) == header.fields()["occurred_at"]
