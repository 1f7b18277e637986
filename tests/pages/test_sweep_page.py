"""The page of a sweep, its button, and the history on a deployment's page."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from common.clock import now
from common.exits import UsageError, VerdictExit
from fleet.models import Deployment, Node, NodeReading, Sweep, SweepShard
from fleet.snapshot import reading_document
from fleet.sweep import sweep_begin
from tests.deployments import Register
from tests.probes.builders import unified

pytestmark = pytest.mark.django_db


def add_node() -> Node:
    deployment = Deployment.objects.create(name="alone", model="m")
    return Node.objects.create(
        deployment=deployment, name="n0", url="http://127.0.0.1:9", role="unified"
    )


def test_the_button_begins_a_sweep_once(by_responder: Client) -> None:
    add_node()
    page = by_responder.get(reverse("deployment_list")).content.decode()
    assert "Read all" in page
    for _ in range(2):
        answer = by_responder.post(reverse("sweep_start"), follow=True)
        assert "0 of 1 nodes read" in answer.content.decode()
    assert Sweep.objects.count() == 1
    assert "is under way" in answer.content.decode()


def test_who_has_no_role_begins_nothing(by_outsider: Client) -> None:
    add_node()
    assert by_outsider.post(reverse("sweep_start")).status_code == 403
    assert not Sweep.objects.exists()


def test_the_page_counts_by_word_and_stops_asking_when_it_is_over(by_responder: Client) -> None:
    assert "Nobody has read" in by_responder.get(reverse("sweep")).content.decode()
    add_node()
    sweep = sweep_begin(actor="rita", trigger="person")
    asking = {"HX-Request": "true", "HX-Target": "sweep"}
    assert by_responder.get(reverse("sweep"), headers=asking).status_code == 200
    SweepShard.objects.update(
        done_count=1, outcomes={"no_route": 1}, verdicts={"inconclusive": 1}, ended_at=now()
    )
    Sweep.objects.filter(pk=sweep.pk).update(ended_at=now())
    answer = by_responder.get(reverse("sweep"), headers=asking)
    assert answer.status_code == 286
    assert "no route" in answer.content.decode()
    assert "1 of 1 nodes read, done" in answer.content.decode()


def test_history_shows_what_changed_from_what_to_what(by_responder: Client) -> None:
    node = add_node()
    before = unified(pool=20_480)
    after = unified(pool=19_000, started="another start")
    rows = [
        NodeReading(
            node=node,
            taken_at=now() - timedelta(minutes=2 - place),
            fingerprint=reading.fingerprint,
            document=reading_document(reading),
        )
        for place, reading in enumerate((before, after))
    ]
    rows[0].save()
    rows[1].changed_from = rows[0]
    rows[1].save()
    page = by_responder.get(reverse("deployment", args=["alone"])).content.decode()
    assert "20,480 → 19,000" in page
    assert "Restarted: its start times are others" in page
    assert "another start" not in page


def test_a_deployment_without_changes_says_so(by_responder: Client) -> None:
    add_node()
    page = by_responder.get(reverse("deployment", args=["alone"])).content.decode()
    assert "Nothing changed and nothing restarted" in page


def test_the_command_reads_here_and_exits_by_the_worst_verdict(register: Register) -> None:
    register("--scenario", "september")
    said, told = StringIO(), StringIO()
    with pytest.raises(VerdictExit) as ended:
        call_command("sweep", "--json", stdout=said, stderr=told)
    assert ended.value.returncode == 1
    document = json.loads(said.getvalue())
    assert document["verdict"] == "fail"
    assert document["nodes"] == {"done": 2, "total": 2, "unread": 0}
    assert document["outcomes"] == {"read": 2}
    assert "2 of 2 nodes" in told.getvalue()


def test_the_command_passes_nothing_that_was_not_read() -> None:
    add_node()
    said = StringIO()
    with pytest.raises(VerdictExit) as ended:
        call_command("sweep", "alone", stdout=said, stderr=StringIO())
    assert ended.value.returncode == 2
    assert "1 refused" in said.getvalue()


def test_the_command_knows_only_deployments_that_are_there() -> None:
    with pytest.raises(UsageError, match="no deployment is called ghost"):
        call_command("sweep", "ghost")
