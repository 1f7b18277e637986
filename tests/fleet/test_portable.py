"""The fleet as a document: what goes out comes back, and what is wrong is named by its place."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.portable import DeploymentEntry, DocumentError, NodeEntry, fleet_text, read_fleet
from fleet.reading import Role

names = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
figures = st.integers(min_value=0, max_value=2**31 - 1)
nodes = st.builds(
    NodeEntry,
    name=names,
    url=names.map(lambda name: f"http://{name}:30000"),
    role=st.sampled_from(Role),
    bootstrap_port=st.none() | st.integers(min_value=1, max_value=65535),
)
deployments = st.builds(
    DeploymentEntry,
    name=names,
    model=st.text(alphabet="abcé/-. ", min_size=1, max_size=20),
    engine=names,
    router_kind=names | st.just(""),
    router_url=names.map(lambda name: f"http://{name}:1"),
    control_url=st.just(""),
    advertised_context=st.none() | figures,
    headroom=st.decimals(min_value=1, max_value=99, places=3),
    granted_tokens=figures,
    required_checks=st.lists(names, max_size=3).map(tuple),
    plans=st.lists(names, max_size=3).map(tuple),
    tenants=st.dictionaries(st.sampled_from(["tenant_a", "tenant_b"]), names),
    nodes=st.lists(nodes, max_size=4, unique_by=lambda node: node.name).map(tuple),
)


def document(**over: object) -> dict[str, Any]:
    node = {"name": "p0", "url": "http://10.0.0.1:30000", "role": "prefill"}
    return {"name": "glm", "model": "glm-5.3", "nodes": [node], **over}


def text_of(*entries: object, **over: object) -> str:
    return json.dumps(
        {"schema": "pagewarden.fleet", "version": 1, "deployments": list(entries), **over}
    )


@given(st.lists(deployments, max_size=3, unique_by=lambda one: one.name).map(tuple))
def test_a_document_is_read_as_it_was_written(entries: tuple[DeploymentEntry, ...]) -> None:
    assert read_fleet(fleet_text(entries)) == entries


def test_what_is_not_said_has_its_default() -> None:
    (entry,) = read_fleet(text_of(document()))
    assert (entry.engine, entry.router_kind, entry.headroom) == ("sglang", "", Decimal("1.25"))
    assert (entry.advertised_context, entry.granted_tokens, entry.tenants) == (None, 0, {})
    assert entry.nodes[0] == NodeEntry(name="p0", url="http://10.0.0.1:30000", role=Role.PREFILL)


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        (document(name=""), "deployments[0].name"),
        (document(model=3), "deployments[0].model"),
        (document(headroom="0.9"), "deployments[0].headroom"),
        (document(headroom="NaN"), "deployments[0].headroom"),
        (document(headroom=True), "deployments[0].headroom"),
        (document(granted_tokens=-1), "deployments[0].granted_tokens"),
        (document(granted_tokens=True), "deployments[0].granted_tokens"),
        (document(granted_tokens=1.5), "deployments[0].granted_tokens"),
        (document(advertised_context=2**31), "deployments[0].advertised_context"),
        (document(required_checks=["a", 1]), "deployments[0].required_checks"),
        (document(plans="boundary"), "deployments[0].plans"),
        (document(tenants=[]), "deployments[0].tenants"),
        (document(tenants={"tenant_c": "x"}), "deployments[0].tenants.tenant_c"),
        (document(nodes={}), "deployments[0].nodes"),
        (document(nodes=[1]), "deployments[0].nodes[0]"),
        (document(nodes=[{"name": "a", "url": "u"}]), "deployments[0].nodes[0].role"),
        (
            document(nodes=[{"name": "a", "url": "u", "role": "both"}]),
            "deployments[0].nodes[0].role",
        ),
        (document(headrooom="2"), "deployments[0].headrooom"),
        (7, "deployments[0]"),
    ],
)
def test_a_wrong_part_is_named_by_its_place(entry: object, place: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_fleet(text_of(entry))
    assert f"{place}:" in str(caught.value)


def test_every_wrong_part_is_named_at_once() -> None:
    with pytest.raises(DocumentError) as caught:
        read_fleet(text_of(document(name="", headroom=0), document(granted_tokens="x")))
    places = ("deployments[0].name", "deployments[0].headroom", "deployments[1].granted_tokens")
    assert all(place in str(caught.value) for place in places)


def test_two_of_one_name_are_refused() -> None:
    twins = [{"name": "a", "url": "http://x:1", "role": "unified"}] * 2
    with pytest.raises(DocumentError, match=r"deployments\[0\]\.nodes: two are called a"):
        read_fleet(text_of(document(nodes=twins)))
    with pytest.raises(DocumentError, match="deployments: two are called glm"):
        read_fleet(text_of(document(), document()))


def test_a_key_in_a_document_is_refused_and_not_shown() -> None:
    with pytest.raises(DocumentError, match=r"node_key: .*keys are set on") as caught:
        read_fleet(text_of(document(node_key="sk-planted")))
    assert "sk-planted" not in str(caught.value)


@pytest.mark.parametrize("over", [{"schema": "other"}, {"version": 2}, {"version": "1"}])
def test_another_schema_or_version_is_refused(over: dict[str, object]) -> None:
    with pytest.raises(DocumentError, match=r"pagewarden\.fleet"):
        read_fleet(text_of(document(), **over))


@given(st.text(max_size=50) | st.binary(max_size=50))
def test_any_text_is_a_document_or_an_error(text: str | bytes) -> None:
    with pytest.raises(DocumentError):
        read_fleet(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*DeploymentEntry.__slots__, "url", "role", "bootstrap_port"]),
                inner,
            )
        ),
        max_leaves=10,
    )
)
def test_any_deployment_is_read_or_named_wrong(entry: object) -> None:
    try:
        (read,) = read_fleet(text_of(entry))
    except DocumentError:
        return
    assert read.name
    assert read.model
