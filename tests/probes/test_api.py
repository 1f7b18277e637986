"""``POST /api/gate``: tokens, refusals as JSON, and the same judgement as the verb's."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import call_command
from django.test import Client

from common.exits import UsageError
from common.models import AuditTrail
from probes import api, tokens
from probes.models import ApiToken
from probes.verbs import judge

pytestmark = pytest.mark.django_db

READINGS = Path(__file__).resolve().parent.parent / "data" / "sglang" / "readings"
CAPTURE = (READINGS / "0.5.23-pd-1024-4096.json").read_bytes()


@pytest.fixture
def token() -> str:
    return tokens.token_add(name="ci", actor="ada")


def asked(body: bytes, token: str | None, **headers: str) -> tuple[int, dict[str, Any]]:
    shown = {} if token is None else {"Authorization": f"Bearer {token}"}
    # With CSRF checks on, as a real server has them.
    response = Client(enforce_csrf_checks=True).post(
        "/api/gate", body, content_type="application/json", headers={**shown, **headers}
    )
    assert response["Content-Type"] == "application/json"
    return response.status_code, response.json()


def test_the_answer_is_the_verbs_own(token: str, capsys: pytest.CaptureFixture[str]) -> None:
    judge.main([str(READINGS / "0.5.23-pd-1024-4096.json"), "--json"])
    status, said = asked(CAPTURE, token)
    assert (status, said) == (200, json.loads(capsys.readouterr().out))
    (entry,) = AuditTrail.objects.filter(action="gate asked")
    assert entry.actor == "api token ci"
    assert entry.details == {"verdict": "fail"}


def test_the_scheme_is_read_in_any_case(token: str) -> None:
    assert asked(CAPTURE, None, Authorization=f"bearer {token}")[0] == 200


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer x", "Basic x", "é"])
def test_without_a_standing_token_nothing_is_judged(token: str, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    status, said = asked(CAPTURE, None, **headers)
    assert status == 401
    assert token not in json.dumps(said)
    assert not AuditTrail.objects.filter(action="gate asked").exists()


def test_a_revoked_token_is_refused_at_once(token: str) -> None:
    tokens.token_revoke(name="ci", actor="ada")
    assert asked(CAPTURE, token)[0] == 401
    with pytest.raises(tokens.TokenError):
        tokens.token_revoke(name="ci", actor="ada")


def test_only_a_digest_is_kept_and_the_use_is_recorded(token: str) -> None:
    assert asked(CAPTURE, token)[0] == 200
    row = ApiToken.objects.get()
    assert token not in str(ApiToken.objects.values().get())
    assert row.last_used_at is not None
    assert row.made_by == "ada"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"\xff", b'{"nodes": 7}', b'{"nodes": [], "headroom": 0.5}'),
        *(b'{"nodes": [], "advisories": [{}]}', b"[" * 100_000),
    ],
)
def test_what_is_no_capture_is_422_with_the_reason(token: str, body: bytes) -> None:
    status, said = asked(body, token)
    assert status == 422
    assert [*said] == ["error"]
    assert said["error"]


def test_a_body_without_an_end_is_cut_off(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "LARGEST_BYTES", 1_000)
    assert asked(b"{" + b" " * 1_000, token)[0] == 413
    assert asked(b"{" + b" " * 999, token)[0] == 422


def test_a_capture_without_nodes_does_not_pass(token: str) -> None:
    status, said = asked(b'{"nodes": []}', token)
    assert (status, said["verdict"]) == (200, "inconclusive")


def test_the_rate_is_bounded_a_token_and_minute(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_A_MINUTE", 2)
    at = datetime(2026, 11, 29, 12, tzinfo=UTC)
    with time_machine.travel(at, tick=False) as clock:
        assert [asked(b"{}", token)[0] for _ in range(3)] == [422, 422, 429]
        other = tokens.token_add(name="other", actor="ada")
        assert asked(b"{}", other)[0] == 422
        clock.move_to(at + timedelta(seconds=60))
        assert asked(b"{}", token)[0] == 422


def test_only_post_is_taken(client: Client) -> None:
    response = client.get("/api/gate")
    assert (response.status_code, response["Allow"]) == (405, "POST")
    assert response.json()["error"]


def test_the_command_prints_a_token_once(capsys: pytest.CaptureFixture[str]) -> None:
    out, told = io.StringIO(), io.StringIO()
    call_command("api_token", "add", "ci", stdout=out, stderr=told)
    token = out.getvalue().strip()
    assert asked(CAPTURE, token)[0] == 200
    listed = io.StringIO()
    call_command("api_token", "list", stdout=listed)
    assert "ci" in listed.getvalue()
    assert token not in listed.getvalue() + told.getvalue() + capsys.readouterr().out
    call_command("api_token", "revoke", "ci", stderr=told)
    assert asked(CAPTURE, token)[0] == 401
    for words in (("revoke", "ci"), ("add", "ci"), ("add", "no name")):
        with pytest.raises(UsageError):
            call_command("api_token", *words, stdout=out, stderr=told)
    assert AuditTrail.objects.filter(subject="ci").count() == 2
