"""``fleet import --prune``: what the file no longer lists is retired, told first, never forced."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from common.exits import UsageError
from common.models import AuditTrail
from fleet.exporting import fleet_export
from fleet.importing import Change, fleet_import
from fleet.models import Deployment, Node, NodeReading
from fleet.portable import DocumentError, fleet_text, read_fleet
from fleet.taking_out import rotation_list, worker_leave
from probes.models import AuditState
from tests.deployments import Register
from tests.incidents.builders import make_audit, make_deployment, make_node, make_reading

pytestmark = pytest.mark.django_db

P0 = {"name": "p0", "url": "http://10.0.0.1:30000", "role": "prefill"}
D0 = {"name": "d0", "url": "http://10.0.0.2:30000", "role": "decode"}
D1 = {"name": "d1", "url": "http://10.0.0.3:30000", "role": "decode"}


def fleet_of(*nodes: dict[str, Any], name: str = "glm") -> str:
    entry = {"name": name, "model": "glm-5.3", "nodes": list(nodes)}
    return json.dumps({"schema": "pagewarden.fleet", "version": 1, "deployments": [entry]})


def imported(text: str, **how: bool) -> list[str]:
    return [str(one) for one in fleet_import(actor="ada", entries=read_fleet(text), **how)]


def standing() -> set[str]:
    return set(Node.objects.filter(retired_at=None).values_list("name", flat=True))


@pytest.fixture(autouse=True)
def _three_nodes() -> None:
    imported(fleet_of(P0, D0, D1))


def test_what_is_no_longer_listed_is_retired_and_keeps_its_evidence() -> None:
    node = Node.objects.get(name="d1")
    reading = make_reading(node, "f" * 64, node.added_at)
    said = imported(fleet_of(P0, D0), is_pruning=True)
    assert said == ["glm/d1: retired", "glm: unchanged", "glm/p0: unchanged", "glm/d0: unchanged"]
    assert standing() == {"p0", "d0"}
    assert NodeReading.objects.get() == reading
    retired = AuditTrail.objects.get(action="node_retired")
    assert (retired.actor, retired.subject) == ("ada", "glm/d1")
    newest = AuditTrail.objects.filter(action="fleet_imported").order_by("-pk")[0]
    assert newest.details == {"changes": 1}
    assert imported(fleet_of(P0, D0), is_pruning=True)[0] == "glm: unchanged"


def test_without_the_word_nothing_is_retired() -> None:
    assert "glm/d1: kept, not in the document" in imported(fleet_of(P0, D0))
    assert standing() == {"p0", "d0", "d1"}


def test_a_rehearsal_says_the_same_and_stores_nothing() -> None:
    text = fleet_of(P0, {**D0, "url": "http://10.0.0.9:1"})
    before = list(Node.objects.values()), AuditTrail.objects.count()
    said = imported(text, is_pruning=True, is_rehearsal=True)
    assert "glm/d1: retired" in said
    assert "glm/d0: changed url" in said
    assert (list(Node.objects.values()), AuditTrail.objects.count()) == before
    assert imported(text, is_pruning=True) == said


def test_a_renamed_node_leaves_its_address_to_its_new_name() -> None:
    said = imported(fleet_of(P0, D0, {**D1, "name": "d2"}), is_pruning=True)
    assert {"glm/d1: retired", "glm/d2: added"} <= set(said)
    assert standing() == {"p0", "d0", "d2"}


def test_another_deployment_is_never_pruned() -> None:
    make_node(make_deployment("other"), "x0")
    imported(fleet_of(P0), is_pruning=True)
    assert standing() == {"p0", "x0"}


def test_a_document_without_any_node_of_it_prunes_nothing() -> None:
    with pytest.raises(DocumentError, match="lists no node of it at all"):
        imported(fleet_of(), is_pruning=True)
    assert standing() == {"p0", "d0", "d1"}


def test_what_somebody_needs_stops_the_whole_import() -> None:
    audit = make_audit(Deployment.objects.get(), state=AuditState.RUNNING)
    text = fleet_of({**P0, "url": "http://10.0.0.9:1"}, D0)
    with pytest.raises(DocumentError, match=f"glm/d1 is not in the document .*audit {audit.pk}"):
        imported(text, is_pruning=True)
    assert Node.objects.get(name="p0").url == P0["url"]
    said = fleet_import(actor="ada", entries=read_fleet(text), is_pruning=True, is_rehearsal=True)
    (about,) = [one for one in said if one.subject == "glm/d1"]
    assert isinstance(about, Change)
    assert about.what == "cannot be retired"
    assert f"audit {audit.pk}" in about.objection
    assert standing() == {"p0", "d0", "d1"}


def test_a_router_that_lists_a_node_keeps_it(register: Register) -> None:
    deployment, drill = register("--scenario", "healthy")
    (entry,) = [one for one in fleet_export() if one.name == "drill"]
    text = fleet_text((entry,))
    document = json.loads(text)
    gone = document["deployments"][0]["nodes"].pop()
    with pytest.raises(DocumentError, match="the router still lists"):
        imported(json.dumps(document), is_pruning=True)
    (worker,) = [one for one in rotation_list(deployment=deployment) if one.url == gone["url"]]
    worker_leave(deployment=deployment, worker=worker)
    assert f"drill/{gone['name']}: retired" in imported(json.dumps(document), is_pruning=True)
    assert len(drill.nodes) == deployment.nodes.filter(retired_at=None).count() + 1


def test_a_renamed_node_may_stay_in_its_router(register: Register) -> None:
    deployment, _ = register("--scenario", "healthy")
    (entry,) = [one for one in fleet_export() if one.name == "drill"]
    document = json.loads(fleet_text((entry,)))
    document["deployments"][0]["nodes"][0]["name"] = "renamed"
    said = imported(json.dumps(document), is_pruning=True)
    assert {f"drill/{entry.nodes[0].name}: retired", "drill/renamed: added"} <= set(said)
    assert deployment.nodes.filter(retired_at=None).count() == len(entry.nodes)


def test_the_command_shows_the_plan_first(tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    file.write_text(fleet_of(P0, D0))
    plan, told = io.StringIO(), io.StringIO()
    call_command("fleet", "import", str(file), "--prune", "--dry-run", stdout=plan, stderr=told)
    assert "glm/d1: retired" in plan.getvalue().splitlines()
    assert "nothing was stored" in told.getvalue()
    assert standing() == {"p0", "d0", "d1"}
    done = io.StringIO()
    call_command("fleet", "import", str(file), "--prune", stdout=done)
    assert done.getvalue() == plan.getvalue()
    assert standing() == {"p0", "d0"}


def test_a_plan_that_cannot_be_followed_is_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    file.write_text(fleet_of(P0, D0))
    make_audit(Deployment.objects.get(), state=AuditState.QUEUED)
    plan = io.StringIO()
    with pytest.raises(UsageError, match="cannot be imported with --prune"):
        call_command("fleet", "import", str(file), "--prune", "--dry-run", stdout=plan)
    assert "glm/d1: cannot be retired (audit" in plan.getvalue()
    with pytest.raises(UsageError, match="nothing was imported"):
        call_command("fleet", "import", str(file), "--prune", stdout=plan)
    assert standing() == {"p0", "d0", "d1"}
