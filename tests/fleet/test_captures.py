"""Rules of the capture file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.exits import UsageError
from fleet.captures import LARGEST_BYTES, Capture, dump_capture, parse_capture
from fleet.contract import Answer, NodeCapture
from fleet.reading import Attestation, Role
from tests.fleet.wire import SECRET

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=12,
)


def document(**over: object) -> dict[str, Any]:
    node = {
        "name": "p0",
        "engine": "sglang",
        "role": "prefill",
        "attested": {"transfer_backend": "mooncake"},
        "logs": ["line one", "line two"],
        "responses": {
            "GET /server_info": {"status": 200, "json": {"version": "0.5.19"}},
            "GET /v1/models": {},
            "GET /metrics": {"status": 200, "text": "a 1"},
            "GET /v1/loads": {"status": 0, "error": "timeout"},
        },
    }
    return {"headroom": 1.25, "nodes": [node], **over}


def changed(**fields: object) -> str:
    """Answer the text of a capture whose only node has other fields."""
    whole = document()
    whole["nodes"][0] |= fields
    return json.dumps(whole)


def test_the_published_shape_is_read() -> None:
    capture = parse_capture(json.dumps(document()))
    (node,) = capture.nodes
    assert (capture.headroom, capture.context) == (Decimal("1.25"), None)
    assert (node.name, node.engine, node.role) == ("p0", "sglang", Role.PREFILL)
    assert (node.attested, node.logs) == (
        {"transfer_backend": Attestation(key="transfer_backend", value="mooncake")},
        ("line one", "line two"),
    )
    assert set(node.responses) == {"GET /server_info", "GET /metrics", "GET /v1/loads"}
    assert node.responses["GET /v1/loads"] == Answer(status=0, error="timeout")
    assert node.responses["GET /metrics"] == Answer(status=200, text="a 1")


def test_unknown_keys_are_ignored_and_headroom_may_be_left_out() -> None:
    whole = document(canary={"anything": 1}, latency=[])
    del whole["headroom"]
    whole["nodes"][0] |= {"colour": "blue", "taken_at": "yesterday", "url": 7}
    assert parse_capture(json.dumps(whole)).headroom == Decimal("1.25")


@pytest.mark.parametrize(
    "headroom", [0.99, 0, -1, "x", None, True, False, [], {}, "NaN", "Infinity", "1e3", "", 1e300]
)
def test_a_headroom_that_is_no_factor_is_refused(headroom: object) -> None:
    with pytest.raises(UsageError, match="headroom"):
        parse_capture(json.dumps(document(headroom=headroom)))


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_headroom_that_is_no_finite_number_is_refused(literal: str) -> None:
    text = json.dumps(document(headroom=99)).replace('"headroom": 99', f'"headroom": {literal}')
    with pytest.raises(UsageError, match="headroom"):
        parse_capture(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "nodes"),
        ('{"nodes": {"a": 1}}', "nodes"),
        ('{"nodes": [3]}', r"nodes\[0\]"),
        (changed(name=""), r"nodes\[0\]\.name"),
        (changed(name=3), r"nodes\[0\]\.name"),
        (changed(engine="vroom"), r"nodes\[0\]\.engine"),
        (changed(engine=None), r"nodes\[0\]\.engine"),
        (changed(role="both"), r"nodes\[0\]\.role"),
        (changed(role=[]), r"nodes\[0\]\.role"),
        (changed(attested=[]), r"nodes\[0\]\.attested"),
        (changed(attested={"a": {}}), r"nodes\[0\]\.attested\['a'\]\.value"),
        (changed(attested={"a": []}), r"nodes\[0\]\.attested\['a'\]"),
        (changed(attested={"a": {"value": "1", "until": "soon"}}), r"\.until"),
        (changed(attested={"a": {"value": "1", "until": 5}}), r"\.until"),
        (changed(attested={"a": {"value": "1", "by": 5}}), r"\.by"),
        (changed(logs="x"), r"nodes\[0\]\.logs"),
        (changed(logs=[1]), r"nodes\[0\]\.logs"),
        (changed(responses=[]), r"nodes\[0\]\.responses"),
        (changed(responses={"GET /x": 5}), r"GET /x"),
        (changed(responses={"GET /x": {"json": {}}}), r"GET /x.*status"),
        (changed(responses={"GET /x": {"status": "200"}}), r"GET /x.*status"),
        (changed(responses={"GET /x": {"status": True}}), r"GET /x.*status"),
        (changed(responses={"GET /x": {"status": 1000}}), r"GET /x.*status"),
        (changed(responses={"GET /x": {"status": 200, "text": {}}}), r"GET /x.*text"),
        (json.dumps(document(context=0)), "context"),
        (json.dumps(document(context=True)), "context"),
        (json.dumps(document(nodes=document()["nodes"] * 2)), r"nodes\[1\].*used twice"),
    ],
)
def test_a_bad_capture_names_the_place_in_one_line(text: str, place: str) -> None:
    with pytest.raises(UsageError, match=place) as caught:
        parse_capture(text)
    assert "\n" not in str(caught.value)


def test_a_null_word_vouches_for_nothing() -> None:
    assert parse_capture(changed(attested={"a": None})).nodes[0].attested == {}


def test_what_cannot_be_json_is_a_usage_error() -> None:
    for text in ("[" * 200_000, "9" * 5000, b"\xff\xfe", '{"nodes"', "\x00"):
        with pytest.raises(UsageError):
            parse_capture(text)


def test_a_capture_that_is_too_large_is_refused() -> None:
    with pytest.raises(UsageError, match="64 MiB"):
        parse_capture(b" " * (LARGEST_BYTES + 1))


@given(JSON)
def test_any_json_is_a_capture_or_a_usage_error(value: object) -> None:
    nested = document(headroom=value, nodes=value)
    for text in (json.dumps(value), json.dumps(nested)):
        try:
            parse_capture(text)
        except UsageError as fault:
            assert "\n" not in str(fault)  # noqa: PT017 - both ways out are right


@settings(max_examples=200)
@given(
    st.sampled_from(["name", "engine", "role", "attested", "logs", "responses", "url", "taken_at"]),
    JSON,
)
def test_any_value_in_any_field_is_taken_or_refused(field: str, value: object) -> None:
    try:
        capture = parse_capture(changed(**{field: value}))
    except UsageError as fault:
        assert "\n" not in str(fault)  # noqa: PT017 - both ways out are right
    else:
        assert len(capture.nodes) == 1


ANSWERS = st.builds(
    Answer,
    status=st.integers(min_value=1, max_value=599),
    json=st.none() | st.dictionaries(st.text(max_size=5), st.integers() | st.booleans()),
    text=st.none() | st.text(max_size=20),
    exposed_secrets=st.lists(st.sampled_from(["api_key", "launch_command"]), unique=True).map(
        tuple
    ),
)
ATTESTATIONS = st.builds(
    Attestation,
    key=st.sampled_from(["transfer_backend", "patch.38935"]),
    value=st.sampled_from(["nixl", "", "1", "true"]),
    reason=st.sampled_from(["", "seen on the host"]),
    by=st.sampled_from(["", "ann"]),
    until=st.none() | st.just(datetime(2026, 12, 24, 18, tzinfo=UTC)),
)
NODES = st.builds(
    NodeCapture,
    name=st.text(alphabet="abc-0", min_size=1, max_size=8),
    engine=st.just("sglang"),
    role=st.sampled_from(Role),
    responses=st.dictionaries(st.sampled_from(["GET /server_info", "GET /metrics"]), ANSWERS),
    url=st.sampled_from(["", "http://10.0.0.1:30000"]),
    attested=st.lists(ATTESTATIONS, unique_by=lambda word: word.key).map(
        lambda words: {word.key: word for word in words}
    ),
    logs=st.lists(st.text(max_size=10), max_size=2).map(tuple),
    taken_at=st.none() | st.just(datetime(2026, 9, 9, 8, 25, 1, 5, tzinfo=UTC)),
)


@given(
    st.lists(NODES, min_size=1, max_size=3, unique_by=lambda node: node.name),
    st.decimals(min_value=1, max_value=1000, places=6),
    st.none() | st.integers(min_value=1, max_value=10**7),
)
def test_what_is_dumped_is_read_back(
    nodes: list[NodeCapture], headroom: Decimal, context: int | None
) -> None:
    capture = Capture(nodes=tuple(nodes), headroom=headroom, context=context)
    assert parse_capture(dump_capture(capture)) == capture


def test_a_refusal_quotes_no_value() -> None:
    with pytest.raises(UsageError) as caught:
        parse_capture(changed(engine=SECRET, role=SECRET))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("over", "is_whole"),
    [
        ({}, True),
        ({"truncated": False, "content_length": 3}, True),
        ({"truncated": True}, False),
        ({"content_length": 73_400_320}, False),
    ],
)
def test_a_body_that_was_not_saved_whole_is_no_answer(
    over: dict[str, object], is_whole: bool
) -> None:
    answer = {"status": 200, "text": "a 1", **over}
    (node,) = parse_capture(changed(responses={"GET /metrics": answer})).nodes
    assert (node.responses["GET /metrics"].error == "") is is_whole
