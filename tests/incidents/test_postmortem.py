"""What a post-mortem gathers, and what the shell shows of an incident."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection

from common.chain import Link, verify
from common.exits import UsageError, VerdictExit
from common.models import AuditTrail
from common.roles import NotAllowed
from common.verdicts import Verdict
from fleet.models import Deployment
from incidents.contract import EXPORTERS, IncidentError, Source, Status
from incidents.models import Incident
from incidents.selectors import chain_state, postmortem_build
from incidents.services import (
    event_record,
    incident_close,
    incident_declare,
    note_add,
    postmortem_export,
    pull_now,
)
from probes.models import Audit
from tests.incidents.builders import (
    foreign_marker,
    make_audit,
    make_check,
    make_deployment,
    make_finding,
    make_incident,
    make_proof,
    make_row,
    move,
)

pytestmark = pytest.mark.django_db
LAUNCH = datetime(2026, 8, 27, tzinfo=UTC)
DAY = datetime(2026, 9, 9, tzinfo=UTC)


def clock(hours: int, minutes: int) -> datetime:
    return DAY + timedelta(hours=hours, minutes=minutes)


def make_gates(audit: Audit, verdict: Verdict, pool: int) -> None:
    make_check(
        audit, verdict, check="pool_covers_context", figures={"pool": pool, "context": 1_048_576}
    )
    band = [681_274, 1_048_569] if verdict is Verdict.FAIL else None
    make_check(audit, verdict, check="pair_exposure", figures={"band": band})


def live_through_september(commander: User) -> Incident:
    """Answer the incident of the facts, brought to restored by the clock."""
    deployment = make_deployment()
    Deployment.objects.update(added_at=LAUNCH)
    with time_machine.travel(clock(8, 25), tick=False):
        audit = make_audit(deployment, ended_at=clock(8, 24))
        make_gates(audit, Verdict.FAIL, 681_280)
        make_row(audit, length=681_274, markers=[foreign_marker()], prompt="a secret prompt")
        make_finding(deployment, audit=audit)
        pull_now()
    incident = Incident.objects.get()
    with time_machine.travel(clock(13, 22), tick=False):
        incident_declare(person=commander, incident=incident)
    for moment, to in (
        (clock(14, 0), Status.CONTAINED),
        (clock(19, 4), Status.MITIGATED),
        (clock(19, 40), Status.RESTORED),
    ):
        with time_machine.travel(moment, tick=False):
            if to is Status.RESTORED:
                last = make_audit(deployment, Verdict.PASS, ended_at=clock(19, 39))
                make_gates(last, Verdict.PASS, 2_040_000)
                pull_now()
            move(incident, to)
    incident.refresh_from_db()
    return incident


@pytest.fixture
def september(commander: User) -> Incident:
    return live_through_september(commander)


def test_september_is_measured_as_it_was(september: Incident) -> None:
    postmortem = postmortem_build(september)
    assert {one.name: one.words for one in postmortem.durations} == {
        "detect": "13 d 8 h 25 min",
        "declare": "4 h 57 min",
        "contain": "38 min",
        "restore": "5 h 40 min",
    }
    (window,) = postmortem.impact.windows
    assert (window.start_at, window.end_at) == (LAUNCH, clock(14, 0))
    assert "not yet determined" in postmortem.impact.affected


def test_gates_stand_before_and_after(september: Incident) -> None:
    postmortem = postmortem_build(september)
    sides = {one.check: (one.before, one.after) for one in postmortem.gates}
    before, after = sides["pool_covers_context"]
    assert before is not None
    assert after is not None
    assert (before.verdict, after.verdict) == ("fail", "pass")
    assert {one.name: one.value for one in before.figures}["pool"] == 681_280
    assert {one.name: one.value for one in after.figures}["pool"] == 2_040_000
    band, _ = sides["pair_exposure"]
    assert band is not None
    assert band.figures[0].value == (681_274, 1_048_569)


def test_one_audit_alone_has_no_after() -> None:
    incident = make_incident()
    make_check(make_audit(incident.deployment))
    postmortem = postmortem_build(incident)
    assert postmortem.last_audit is None
    assert [one.after for one in postmortem.gates] == [None]


def test_runs_people_and_findings_are_told(september: Incident, commander: User) -> None:
    note_add(person=commander, incident=september, text="called the platform team")
    postmortem = postmortem_build(september)
    assert [one.text for one in postmortem.actions] == [
        "Contained: checked",
        "Mitigated: checked",
        "Restored: checked",
    ]
    assert ("carl", "commander") in [(one.name, one.part) for one in postmortem.people]
    assert postmortem.findings[0].kind == "leak"


def test_what_is_open_is_asked(september: Incident) -> None:
    asked = " ".join(postmortem_build(september).open_questions)
    for words in ("not yet determined", "is restored", "is not resolved", "no standing proof"):
        assert words in asked


def test_after_the_close_nothing_of_the_deployment_comes_in(
    september: Incident, commander: User
) -> None:
    with time_machine.travel(clock(20, 0), tick=False):
        make_proof(september.deployment)
        incident_close(person=commander, incident=september, summary="fixed")
    make_row(make_audit(september.deployment, ended_at=clock(23, 0)), tenant="later")
    assert "later" not in {one.tenant for one in postmortem_build(september).canary}


@pytest.mark.parametrize("form", sorted(EXPORTERS.all()))
def test_an_export_holds_figures_and_markers_but_no_prompt_and_no_answer(
    september: Incident, commander: User, form: str
) -> None:
    exported = postmortem_export(person=commander, incident=september, form=form)
    assert exported.file_name == f"{september.reference}.{EXPORTERS.get(form).suffix}"
    for words in ("00cafe", chain_state(september).head, "4 h 57 min"):
        assert words in exported.text
    for secret in ("a secret prompt", "text of another tenant"):
        assert secret not in exported.text
    assert AuditTrail.objects.filter(action="export post-mortem", actor="carl").exists()


def test_the_exported_chain_verifies_by_itself(september: Incident, commander: User) -> None:
    text = postmortem_export(person=commander, incident=september, form="json").text
    document = json.loads(text)
    links = [
        Link(
            sequence=one["sequence"],
            header={
                "incident": document["subject"]["reference"],
                "occurred_at": one["occurred_at"],
                "recorded_at": one["recorded_at"],
                "source": one["source"],
                "actor": one["actor"],
                "kind": one["kind"],
                "supersedes": str(one["supersedes"] or ""),
            },
            body_digest=one["body_digest"],
            previous=one["previous"],
            digest=one["digest"],
        )
        for one in document["entries"]
    ]
    assert links
    assert verify(links) is None
    assert links[-1].digest == document["chain"]["head"]


def test_an_export_needs_a_role_and_a_known_form(
    september: Incident, commander: User, outsider: User
) -> None:
    with pytest.raises(NotAllowed):
        postmortem_export(person=outsider, incident=september, form="json")
    with pytest.raises(IncidentError, match="json, markdown"):
        postmortem_export(person=commander, incident=september, form="docx")


def run(*arguments: str) -> str:
    said = StringIO()
    call_command(*arguments, stdout=said)
    return said.getvalue()


def test_the_shell_exports_to_a_file_and_to_its_output(september: Incident, tmp_path: Path) -> None:
    target = tmp_path / "out.md"
    assert run("postmortem", september.reference, "-o", str(target)) == ""
    assert target.read_text(encoding="utf-8").startswith(f"# {september.reference}: ")
    assert json.loads(run("postmortem", september.reference, "--format", "json"))["version"] == 1
    assert AuditTrail.objects.filter(actor__endswith="(shell)").count() == 2


@pytest.mark.parametrize(
    "arguments",
    [("incident", "show"), ("incident", "verify"), ("postmortem",)],
)
def test_an_unknown_incident_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="INC-2026-0099"):
        run(*arguments, "INC-2026-0099")


def test_a_file_that_cannot_be_written_is_wrong_usage(september: Incident, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        run("postmortem", september.reference, "-o", str(tmp_path))


def test_the_shell_lists_and_shows(september: Incident) -> None:
    assert september.reference in run("incident", "list")
    (listed,) = json.loads(run("incident", "list", "--json"))["incidents"]
    assert (listed["reference"], listed["status"]) == (september.reference, "restored")
    assert listed["declared_at"] == "2026-09-09T13:22:00+00:00"
    assert "Declared a security incident; carl commands" in run(
        "incident", "show", september.reference
    )
    shown = json.loads(run("incident", "show", september.reference, "--json"))
    assert [one["sequence"] for one in shown["timeline"]] == list(
        range(1, len(shown["timeline"]) + 1)
    )


def test_the_shell_verifies_a_whole_chain(september: Incident) -> None:
    state = chain_state(september)
    assert f"{state.entries} entries" in run("incident", "verify", september.reference)
    said = json.loads(
        run("incident", "verify", september.reference, "--json", "--head", state.head)
    )
    assert said == {
        "incident": september.reference,
        "verdict": "pass",
        "entries": state.entries,
        "head": state.head,
        "break": None,
    }


def test_the_shell_fails_a_broken_chain_and_says_where(september: Incident) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE incidents_timelineevent DISABLE TRIGGER USER")
        cursor.execute("UPDATE incidents_timelineevent SET text = 'x' WHERE sequence = 2")
        cursor.execute("ALTER TABLE incidents_timelineevent ENABLE TRIGGER USER")
    said = StringIO()
    with pytest.raises(VerdictExit) as stop:
        call_command("incident", "verify", september.reference, "--json", stdout=said)
    assert stop.value.returncode == 1
    document = json.loads(said.getvalue())
    assert (document["verdict"], document["break"]["sequence"]) == ("fail", 2)


def test_a_head_that_the_chain_does_not_hold_fails(september: Incident) -> None:
    with pytest.raises(VerdictExit) as stop:
        run("incident", "verify", september.reference, "--head", "0" * 64)
    assert stop.value.returncode == 1


def test_an_event_without_place_in_the_list_of_kinds_is_told_too(september: Incident) -> None:
    event_record(
        incident=september, source=Source.RUN, actor="run 1", kind="step_done", text="Done: told"
    )
    assert postmortem_build(september).actions[-1].text == "Done: told"
