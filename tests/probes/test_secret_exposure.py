"""Secrets that an engine shows are named by field, never by value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.gates.secret_exposure import SecretExposure
from probes.judgement import Check, Kind, Skipped
from probes.verbs import judge
from tests.probes.builders import unified

SECRET = "sk-planted-31337"


def judged(reading: Reading) -> Check:
    (check,) = SecretExposure().judge(FleetReading(readings=(reading,)))
    assert isinstance(check, Check)
    assert check.kind is Kind.SECRET
    return check


def test_exposed_fields_fail_by_name() -> None:
    check = judged(unified(exposed_secrets=("admin_api_key", "api_key")))
    assert (check.verdict, check.figures["exposed"]) == (Verdict.FAIL, 2)
    assert "node-1 shows secrets in clear in admin_api_key, api_key" in check.reason


def test_what_was_seen_fails_even_where_the_node_is_not_read() -> None:
    check = judged(unified(exposed_secrets=("api_key",), problem="no figures"))
    assert check.verdict is Verdict.FAIL


def test_a_silent_node_is_inconclusive_and_a_tidy_one_passes() -> None:
    assert judged(unified(problem="timed out")).verdict is Verdict.INCONCLUSIVE
    assert judged(unified()).verdict is Verdict.PASS


def test_no_nodes_are_skipped() -> None:
    (found,) = SecretExposure().judge(FleetReading(readings=()))
    assert isinstance(found, Skipped)


def test_no_value_reaches_the_judgement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info = {"max_req_input_len": 9, "api_key": SECRET, "launch_command": f"--api-key {SECRET}"}
    node = {"name": "n", "engine": "sglang", "role": "unified"}
    answers = {"GET /server_info": {"status": 200, "json": info}}
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"nodes": [{**node, "responses": answers}]}), encoding="utf-8")
    judge.main([str(path), "--json"])
    shown = capsys.readouterr().out
    (check,) = [c for c in json.loads(shown)["checks"] if c["check"] == "secret_exposure"]
    assert (check["verdict"], check["kind"], check["required"]) == ("fail", "secret", False)
    assert check["figures"]["fields"] == "api_key, launch_command"
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("secrets_open", "words", "figure"),
    [
        (True, "readable without a key", "without a key"),
        (False, "readable only with the key", "only with the key"),
        (None, "in api_key: let nobody", None),
    ],
)
def test_the_gate_says_who_can_read_it_and_fails_either_way(
    words: str, figure: str | None, *, secrets_open: bool | None
) -> None:
    check = judged(unified(exposed_secrets=("api_key",), secrets_open=secrets_open))
    assert (check.verdict, check.figures["readable"]) == (Verdict.FAIL, figure)
    assert words in check.reason
