"""The registry of markers: a text from anywhere names the audit that planted what is in it."""

from __future__ import annotations

import base64
import io
import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from common.clock import now
from common.exits import EXIT_FAIL, EXIT_PASS, VerdictExit
from common.models import AuditTrail
from common.roles import NotAllowed
from fleet.models import Deployment
from probes.canary.rounds import Tenant
from probes.marker_registry import TooLong, secret_keep, trace, trace_as
from probes.markers import FRAGMENT_CHARACTERS, Marker, MarkerKey
from probes.models import Audit, MarkerSecret
from tests.incidents.builders import make_audit, make_deployment, make_row

pytestmark = pytest.mark.django_db

SECRET = bytes(range(32))
TENANTS = (
    Tenant(number=1, name="tenant-a", key="sk-a"),
    Tenant(number=2, name="tenant-b", key="sk-b"),
)


@pytest.fixture
def deployment() -> Deployment:
    made = make_deployment("glm")
    secret_keep(deployment=made, secret=SECRET, tenants=TENANTS)
    return made


@pytest.fixture
def audit(deployment: Deployment) -> Audit:
    made = make_audit(deployment)
    make_row(made, tenant="tenant-a", request="00cafe", length=10_618)
    return made


def code(page: int = 17, *, secret: bytes = SECRET) -> str:
    return MarkerKey(secret).write(Marker(tenant=1, request=0xCAFE, page=page))


def test_a_whole_code_names_tenant_request_page_and_audit(audit: Audit) -> None:
    (origin,) = trace(f"our customer saw this: {code().lower()} in his answer")
    assert (origin.tenant, origin.request, origin.page) == ("tenant-a", "00cafe", 17)
    assert origin.row is not None
    assert origin.row.audit_id == audit.pk
    assert origin.is_sure
    assert origin.is_live
    assert origin.offset == len("our customer saw this: ")


def test_a_code_in_base64_is_found_too(audit: Audit) -> None:
    hidden = base64.b64encode(f"x{code()}y".encode()).decode()
    assert [one.page for one in trace(f"blob {hidden}")] == [17]
    assert audit.rows.count() == 1


def test_a_fragment_of_a_live_marker_is_found_by_the_row_alone(audit: Audit) -> None:
    (origin,) = trace(f"...{code()[:FRAGMENT_CHARACTERS]}")
    assert (origin.request, origin.page) == ("00cafe", 17)
    assert origin.row is not None
    assert origin.row.audit_id == audit.pk


def test_an_old_request_is_retired_and_its_whole_code_is_still_told(audit: Audit) -> None:
    long_ago = now() - timedelta(days=40)
    Audit.objects.filter(pk=audit.pk).update(queued_at=long_ago, started_at=long_ago)
    (origin,) = trace(code())
    assert not origin.is_live
    assert origin.planted_at == long_ago


def test_the_key_of_other_tenants_stays_known_after_their_keys_changed(audit: Audit) -> None:
    secret_keep(deployment=audit.deployment, secret=bytes(32), tenants=TENANTS)
    assert [one.request for one in trace(code())] == ["00cafe"]
    assert MarkerSecret.objects.count() == 2


def test_the_same_key_is_kept_once_and_sealed(deployment: Deployment) -> None:
    secret_keep(deployment=deployment, secret=SECRET, tenants=TENANTS)
    (kept,) = MarkerSecret.objects.all()
    assert SECRET.hex().encode() not in bytes(kept.sealed_secret)
    assert kept.secret == SECRET.hex()


@pytest.mark.usefixtures("audit")
def test_codes_of_another_key_and_plain_text_are_nobodys() -> None:
    assert trace(code(secret=b"\x07" * 32)) == []
    assert trace("HTTP 200, right token count, coherent text " * 200) == []


def test_a_text_that_is_too_long_is_refused_in_words() -> None:
    with pytest.raises(TooLong, match="send the part"):
        trace("x" * (4 * 1024 * 1024 + 1))


def test_looking_up_is_on_the_trail_and_the_text_is_not(audit: Audit, responder: User) -> None:
    assert trace_as(person=responder, text=code())
    entry = AuditTrail.objects.filter(action="text_traced").latest("pk")
    assert code() not in json.dumps(entry.details)
    assert audit.pk


def test_an_outsider_may_not_trace(outsider: User) -> None:
    with pytest.raises(NotAllowed):
        trace_as(person=outsider, text="x")


@pytest.mark.usefixtures("audit")
def test_the_verb_exits_by_what_it_found(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    file.write_text(f"a report: {code()}", encoding="utf-8")
    said = io.StringIO()
    with pytest.raises(VerdictExit) as left:
        call_command("trace", str(file), "--json", stdout=said)
    assert left.value.code == EXIT_FAIL
    assert json.loads(said.getvalue())["markers"][0]["request"] == "00cafe"
    file.write_text("nothing of ours", encoding="utf-8")
    with pytest.raises(VerdictExit) as left:
        call_command("trace", str(file), stdout=said)
    assert left.value.code == EXIT_PASS
