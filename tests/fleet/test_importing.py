"""Imports are by name, all or nothing, and change nothing the second time; exports hold no key."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from common.exits import ToolError, UsageError
from common.models import AuditTrail
from common.roles import NotAllowed
from fleet.contract import RouterError
from fleet.discovery import RouterOrder
from fleet.exporting import fleet_export
from fleet.importing import RouterImport, fleet_import, fleet_import_router
from fleet.models import Credential, Deployment, Node, Purpose
from fleet.portable import DocumentError, fleet_text, read_fleet
from fleet.selectors import deployment_access
from fleet.services import Key, credentials_set
from tests.deployments import DrillStarter

pytestmark = pytest.mark.django_db

SECRET = "sk-planted-key"
P0 = {"name": "p0", "url": "http://10.0.0.1:30000", "role": "prefill", "bootstrap_port": 8998}
D0 = {"name": "d0", "url": "http://10.0.0.2:30000", "role": "decode"}


def fleet_of(*nodes: dict[str, Any], **over: object) -> str:
    entry = {"name": "glm", "model": "glm-5.3", "nodes": list(nodes), **over}
    return json.dumps({"schema": "pagewarden.fleet", "version": 1, "deployments": [entry]})


def imported(text: str) -> dict[str, str]:
    changes = fleet_import(actor="test", entries=read_fleet(text))
    return {one.subject: f"{one.what} {' '.join(one.columns)}".strip() for one in changes}


def test_an_import_adds_then_changes_nothing_then_says_what_it_changed() -> None:
    text = fleet_of(P0, D0, tenants={"tenant_a": "probe-1"})
    assert imported(text) == {"glm": "added", "glm/p0": "added", "glm/d0": "added"}
    before = list(Node.objects.values())
    assert set(imported(text).values()) == {"unchanged"}
    assert list(Node.objects.values()) == before
    changed = fleet_of(
        P0, {**D0, "url": "http://10.0.0.9:1"}, headroom="1.5", tenants={"tenant_a": "probe-2"}
    )
    assert imported(changed) == {
        "glm": "changed headroom tenant_a",
        "glm/p0": "unchanged",
        "glm/d0": "changed url",
    }
    assert Credential.objects.get(purpose="tenant_a").name == "probe-2"


def test_what_the_document_does_not_name_is_kept_and_told() -> None:
    imported(fleet_of(P0, D0))
    assert imported(fleet_of(P0))["glm/d0"] == "kept, not in the document"
    assert Node.objects.filter(retired_at=None).count() == 2


def test_two_nodes_can_change_addresses_with_each_other() -> None:
    imported(fleet_of(P0, D0))
    swapped = ({**P0, "url": D0["url"]}, {**D0, "url": P0["url"]})
    assert imported(fleet_of(*swapped))["glm/p0"] == "changed url"
    assert {one.name: (one.url, one.retired_at) for one in Node.objects.all()} == {
        "p0": (D0["url"], None),
        "d0": (P0["url"], None),
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (fleet_of(P0, {**D0, "url": "ftp://x"}), "deployments[0].nodes[1].url (glm/d0)"),
        (fleet_of(P0, {**D0, "url": P0["url"]}), "deployments[0].nodes[1] (glm/d0)"),
        (fleet_of(P0, {**D0, "name": "d 0"}), "deployments[0].nodes[1].name (glm/d 0)"),
        (fleet_of(P0, engine="banana"), "deployments[0].engine (glm)"),
        (fleet_of(P0, router_kind="banana"), "deployments[0].router_kind (glm)"),
        (fleet_of(P0, router_url="http://"), "deployments[0].router_url (glm)"),
    ],
)
def test_bad_input_names_its_place_and_loses_nothing(text: str, place: str) -> None:
    imported(fleet_of(P0, D0, headroom="1.5"))
    before = (list(Deployment.objects.values()), list(Node.objects.values()))
    with pytest.raises(DocumentError) as caught:
        imported(text.replace('"glm-5.3"', '"another-model"'))
    assert place in str(caught.value)
    assert (list(Deployment.objects.values()), list(Node.objects.values())) == before


def test_an_export_comes_back_as_it_was_and_holds_no_key() -> None:
    plans = ["boundary", "reference"]
    imported(fleet_of(P0, D0, headroom="1.5", required_checks=["pair_exposure"], plans=plans))
    assert Deployment.objects.get().plans == plans
    credentials_set(
        actor="test",
        deployment=Deployment.objects.get(),
        keys=[
            Key(purpose=Purpose.NODE, key=SECRET),
            Key(purpose=Purpose.TENANT_A, key=SECRET, name="probe-1"),
        ],
    )
    text = fleet_text(fleet_export())
    assert SECRET not in text
    assert set(imported(text).values()) == {"unchanged"}
    assert deployment_access(Deployment.objects.get()).node_key == SECRET
    Node.objects.all().delete()
    Deployment.objects.all().delete()
    imported(text)
    assert fleet_text(fleet_export()) == text


def test_an_import_needs_a_role_and_is_in_the_trail(outsider: User, responder: User) -> None:
    entries = read_fleet(fleet_of(P0))
    with pytest.raises(NotAllowed):
        fleet_import(actor=outsider, entries=entries)
    fleet_import(actor=responder, entries=entries)
    entry = AuditTrail.objects.get(action="fleet_imported")
    assert (entry.actor, entry.details) == ("rita", {"changes": 2})


def test_a_whole_cluster_is_imported_from_its_router(
    start_drill: DrillStarter, responder: User, outsider: User
) -> None:
    drill = start_drill("--scenario", "healthy", "--prefills", "2")
    wanted = RouterImport(
        name="found", order=RouterOrder(url=drill.router, key="router-key"), node_key="node-key"
    )
    with pytest.raises(NotAllowed):
        fleet_import_router(actor=outsider, wanted=wanted)
    made = fleet_import_router(actor=responder, wanted=wanted)
    access = deployment_access(made.deployment)
    assert {(one.url, str(one.role), one.bootstrap_port) for one in access.nodes} == {
        (node["url"], node["role"], node["bootstrap_port"]) for node in drill.nodes
    }
    assert (access.router_kind, access.model) == ("sglang-router", drill.model)
    assert (access.router_key, access.node_key) == ("router-key", "node-key")


def test_a_router_that_is_none_leaves_nothing_behind(
    start_drill: DrillStarter, responder: User
) -> None:
    drill = start_drill("--scenario", "healthy")
    wanted = RouterImport(name="found", order=RouterOrder(url=drill.nodes[0]["url"]))
    with pytest.raises(RouterError, match="GET /workers with 404"):
        fleet_import_router(actor=responder, wanted=wanted)
    assert not Deployment.objects.exists()


def test_the_command_discovers_imports_and_exports(
    start_drill: DrillStarter, tmp_path: Path
) -> None:
    drill = start_drill("--scenario", "healthy")
    file = tmp_path / "fleet.json"
    noise = io.StringIO()
    call_command("fleet", "discover", drill.router, "--name", "found", "-o", file, stderr=noise)
    assert "sglang-router: 1 prefill, 1 decode; ready: 2 of 2 healthy" in noise.getvalue()
    said = io.StringIO()
    call_command("fleet", "import", str(file), stdout=said)
    assert said.getvalue().splitlines() == [
        "found: added",
        "found/prefill-1: added",
        "found/decode-1: added",
    ]
    said = io.StringIO()
    call_command("fleet", "export", stdout=said)
    assert said.getvalue() == file.read_text()


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    with pytest.raises(UsageError, match="cannot be read"):
        call_command("fleet", "import", str(file))
    file.write_text(fleet_of({**P0, "role": "both"}))
    with pytest.raises(UsageError, match=r"nothing was imported .*nodes\[0\]\.role"):
        call_command("fleet", "import", str(file))
    with pytest.raises(UsageError, match="does not start with http"):
        call_command("fleet", "discover", "ftp://x", "--name", "n")
    with pytest.raises(ToolError, match="cannot be asked"):
        call_command("fleet", "discover", "http://127.0.0.1:9", "--name", "n")
    with pytest.raises(UsageError, match="banana"):
        call_command("fleet", "discover", "http://127.0.0.1:9", "--name", "n", "--kind", "banana")
