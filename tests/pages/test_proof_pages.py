"""A pass can be taken along: signed when it is granted, checked elsewhere by the gate verb."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from common.clock import now
from common.exits import EXIT_FAIL, EXIT_PASS
from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.conduct import audit_conduct
from probes.judge import judge_fleet
from probes.models import Audit, Proof
from probes.outcome import AuditOutcome, audit_finish
from probes.proof_bundle import new_keys, open_proof
from probes.services import audit_queue
from probes.signing import public_key
from probes.verbs import gate
from tests.deployments import DrillCluster, Register, await_serving, redeploy
from tests.incidents.builders import make_deployment, make_proof
from tests.pages.asking import words_of
from tests.probes.builders import decode, prefill

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

KEY = "/audits/public-key/"


@pytest.fixture
def key_file(tmp_path: Path, settings: Settings) -> Path:
    """Give the installation a signing key, as `up` does."""
    private, _ = new_keys()
    path = tmp_path / "proof-key"
    path.write_text(private)
    settings.PROOF_KEY_FILE = str(path)
    return path


def finished(*, headroom: str = "1.25") -> Audit:
    """Bring an audit with a round to a pass, as a worker does."""
    deployment = make_deployment("glm")
    deployment.headroom = headroom
    deployment.save()
    deployment.refresh_from_db()
    audit = audit_queue(deployment=deployment, actor="test", trigger="test")
    assert Audit.objects.claim(audit.pk, owner="me")
    readings: tuple[Reading, ...] = (
        prefill(url="http://127.0.0.1:1"),
        decode(url="http://127.0.0.1:2"),
    )
    judgement = judge_fleet(FleetReading(readings=readings))
    assert judgement.verdict is Verdict.PASS
    outcome = AuditOutcome(judgement=judgement, readings_before=readings, has_rounds=True)
    assert audit_finish(audit=audit, owner="me", outcome=outcome)
    return Audit.objects.get(pk=audit.pk)


def node_words(drill: DrillCluster) -> list[str]:
    return [word for node in drill.nodes for word in (f"--{node['role']}", node["url"])]


def test_what_the_page_hands_out_is_what_the_gate_verb_accepts(
    by_outsider: Client, register: Register, key_file: Path, tmp_path: Path
) -> None:
    deployment, drill = register("--scenario", "healthy")
    audit = audit_queue(deployment=deployment, actor="test", trigger="test")
    assert audit_conduct(audit_pk=audit.pk)
    audit.refresh_from_db()
    assert audit.verdict == "pass", audit.headline
    address = reverse("audit_proof", args=[audit.pk])
    page = by_outsider.get(reverse("audit", args=[audit.pk])).content.decode()
    assert f'href="{address}"' in page
    assert f'href="{KEY}"' in page
    answer = by_outsider.get(address)
    assert f'filename="drill-audit-{audit.pk}.proof.json"' in answer["Content-Disposition"]
    assert "no-store" in answer["Cache-Control"]
    bundle, public = tmp_path / "p.json", tmp_path / "p.pub"
    bundle.write_bytes(answer.content)
    public.write_bytes(by_outsider.get(KEY).content)
    assert key_file.read_text() not in public.read_text()
    check = ["--verify-proof", str(bundle), "--proof-public-key-file", str(public)]
    assert gate.main(check) == EXIT_PASS
    live = [*check, "--engine", "sglang", *node_words(drill)]
    assert gate.main(live) == EXIT_PASS
    redeploy(drill, drill.nodes[0]["name"])
    await_serving(deployment)
    assert gate.main(live) == EXIT_FAIL


def test_the_bundle_says_what_the_audit_judged(by_outsider: Client, key_file: Path) -> None:
    assert key_file
    audit = finished(headroom="1.250")
    proof = audit.proof
    answer = by_outsider.get(reverse("audit_proof", args=[audit.pk]))
    said = open_proof(answer.content, by_outsider.get(KEY).content)
    assert {one.name: one.fingerprint for one in said.nodes} == proof.fingerprints
    assert (said.issued_at, said.expires_at) == (proof.granted_at, proof.expires_at)
    assert str(said.headroom) == "1.25"
    assert said.verdict == "pass"
    assert json.loads(answer.content)["payloadType"] == "application/vnd.in-toto+json"


@pytest.mark.parametrize("why", ["voided", "ran out"])
def test_what_no_longer_stands_is_not_handed_out(
    by_outsider: Client, key_file: Path, why: str
) -> None:
    assert key_file
    audit = finished()
    if why == "voided":
        Proof.objects.update(voided_at=now(), void_reason="prefill-1 restarted since the proof")
    else:
        Proof.objects.update(expires_at=now() - timedelta(seconds=1))
    address = reverse("audit_proof", args=[audit.pk])
    after = by_outsider.get(address, follow=True)
    assert "This proof no longer stands" in words_of(after)
    assert "Content-Disposition" not in after
    assert address not in by_outsider.get(reverse("audit", args=[audit.pk])).content.decode()


def test_an_audit_without_a_proof_has_no_bundle(by_outsider: Client) -> None:
    audit = audit_queue(deployment=make_deployment(), actor="test", trigger="test")
    assert by_outsider.get(reverse("audit_proof", args=[audit.pk])).status_code == 404
    assert "Download proof" not in words_of(by_outsider.get(reverse("audit", args=[audit.pk])))


@pytest.mark.parametrize("held", [None, "", "no key at all"])
def test_without_a_usable_key_the_proof_stands_and_says_that_it_is_not_signed(
    by_outsider: Client,
    tmp_path: Path,
    settings: Settings,
    held: str | None,
) -> None:
    settings.PROOF_KEY_FILE = ""
    if held is not None:
        settings.PROOF_KEY_FILE = str(tmp_path / "key")
        if held:
            (tmp_path / "key").write_text(held)
    audit = finished()
    assert audit.proof.is_standing
    assert "The proof was not signed" in words_of(
        by_outsider.get(reverse("audit", args=[audit.pk]))
    )
    after = by_outsider.get(reverse("audit_proof", args=[audit.pk]), follow=True)
    assert "This proof was not signed" in words_of(after)
    told = words_of(by_outsider.get(KEY, follow=True))
    assert "There is no public key" in told
    assert "PAGEWARDEN_PROOF_KEY_FILE" in told


def test_another_key_does_not_check_it(by_outsider: Client, key_file: Path) -> None:
    audit = finished()
    private, _ = new_keys()
    key_file.write_text(private)
    envelope = by_outsider.get(reverse("audit_proof", args=[audit.pk])).content
    with pytest.raises(ValueError, match="another key signed it"):
        open_proof(envelope, public_key().encode())


def test_both_need_a_sign_in(key_file: Path) -> None:
    assert key_file
    proof = make_proof(make_deployment())
    for address in (KEY, reverse("audit_proof", args=[proof.audit_id])):
        answer = Client().get(address)
        assert answer.status_code == 302
        assert "sign-in" in answer["Location"]
