"""Whether a transfer may outlast the time for which its pages are held."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import Attestation, FleetReading, Reading, Role
from probes.gates.bounded_transfer import AFTER_EXPIRY, EXPIRED, BoundedTransfer
from probes.judgement import Check, Kind, Skipped
from probes.verbs import judge
from probes.vouched import BATCH_LIMIT
from tests.probes.builders import decode, prefill, unified

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
SHOWN = {"environment": "shown"}


def judged(reading: Reading) -> Check | Skipped:
    (found,) = BoundedTransfer().judge(FleetReading(readings=(reading,)))
    return found


def checked(reading: Reading) -> Check:
    check = judged(reading)
    assert isinstance(check, Check)
    assert check.kind is Kind.CONFIG
    return check


def sender(flags: dict[str, str | None] | None = None, **over: Any) -> Reading:  # noqa: ANN401
    return prefill(**{"transfer_backend": "mooncake", "flags": flags or {}, **over})


@pytest.mark.parametrize(
    ("flags", "version", "verdict"),
    [
        ({}, "0.5.23", OPEN),
        (SHOWN, "0.5.23", FAIL),
        (SHOWN, "0.5.22", FAIL),
        ({**SHOWN, BATCH_LIMIT: "0"}, "0.5.23", FAIL),
        ({**SHOWN, BATCH_LIMIT: "1024"}, "0.5.23", PASS),
        ({**SHOWN, BATCH_LIMIT: "1024"}, "0.5.22", PASS),
        ({**SHOWN, BATCH_LIMIT: "1024"}, "0.5.20", OPEN),
        ({**SHOWN, BATCH_LIMIT: "-1"}, "0.5.23", OPEN),
        ({**SHOWN, BATCH_LIMIT: "many"}, "0.5.23", OPEN),
        ({**SHOWN, BATCH_LIMIT: "1024"}, None, OPEN),
    ],
)
def test_mooncake(flags: dict[str, str | None], version: str | None, verdict: Verdict) -> None:
    check = checked(sender(flags, version=version))
    assert check.verdict is verdict, check.reason


def test_a_default_that_is_not_shown_is_told_as_unbounded() -> None:
    reason = checked(sender()).reason
    assert "default" in reason
    assert "unbounded" in reason


def test_an_attested_bound_counts_and_is_named() -> None:
    word = Attestation(key=BATCH_LIMIT, value="512", by="ann")
    check = checked(sender(attested={word.key: word}))
    assert (check.verdict, check.figures["pages_a_call"]) == (PASS, "512")
    assert "the word of ann" in check.reason


def test_other_back_ends_receivers_and_unified_nodes_are_skipped() -> None:
    assert isinstance(judged(sender(transfer_backend="nixl")), Skipped)
    assert isinstance(judged(decode(transfer_backend="mooncake")), Skipped)
    assert isinstance(judged(unified()), Skipped)


def test_a_decode_node_that_can_become_prefill_sends_too() -> None:
    flags = {**SHOWN, "enable_pd_role_switch": "true"}
    assert checked(decode(transfer_backend="mooncake", flags=flags)).verdict is FAIL


@pytest.mark.parametrize(
    "over", [{"transfer_backend": None}, {"problem": "x"}, {"reported_role": Role.UNIFIED}]
)
def test_what_is_not_known_is_inconclusive(over: dict[str, Any]) -> None:
    assert checked(sender({**SHOWN, BATCH_LIMIT: "9"}, **over)).verdict is OPEN


def leased(lease: str | None, queue: str | None, **counters: float) -> Check:
    words = {"kv_lease_duration": lease, "router_queue_s": queue}
    attested = {
        key: Attestation(key=key, value=value, by="ann") for key, value in words.items() if value
    }
    named = {{"late": AFTER_EXPIRY, "expired": EXPIRED}[key]: n for key, n in counters.items()}
    return checked(prefill(engine="vllm", attested=attested, counters=named))


@pytest.mark.parametrize(
    ("lease", "queue", "verdict"),
    [
        ("30", "5", PASS),
        ("30", "29.9", PASS),
        ("30", "30", FAIL),
        ("6", "30", FAIL),
        (None, "5", OPEN),
        ("30", None, OPEN),
        ("30", "NaN", OPEN),
        ("30", "-1", OPEN),
        (None, None, OPEN),
    ],
)
def test_a_vllm_lease_must_outlast_the_routers_queue(
    lease: str | None, queue: str | None, verdict: Verdict
) -> None:
    assert leased(lease, queue).verdict is verdict


def test_pages_that_were_read_after_their_lease_fail_whatever_is_attested() -> None:
    assert leased("480", "1", late=1.0).verdict is FAIL
    assert leased("480", "1", late=0.0, expired=3.0).verdict is OPEN


@given(st.decimals(0, 10**6, places=2), st.decimals(0, 10**6, places=2), st.integers(1, 10**6))
def test_a_longer_lease_never_makes_a_pass_a_fail(lease: Any, queue: Any, more: int) -> None:  # noqa: ANN401
    if leased(str(lease), str(queue)).verdict is PASS:
        assert leased(str(lease + more), str(queue)).verdict is PASS


def through_the_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, shown: object, **node: object
) -> dict[str, Any]:
    info = {
        "version": "0.5.23",
        "max_req_input_len": 1_018,
        "disaggregation_mode": "prefill",
        "disaggregation_transfer_backend": "mooncake",
        "internal_states": [{"env_vars": shown}] if shown is not None else [{}],
    }
    answers = {"GET /server_info": {"status": 200, "json": info}}
    whole = {"name": "p", "engine": "sglang", "role": "prefill", "responses": answers, **node}
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"nodes": [whole]}), encoding="utf-8")
    judge.main([str(path), "--json"])
    found = json.loads(capsys.readouterr().out)["checks"]
    (check,) = [one for one in found if one["check"] == "bounded_transfer"]
    answer: dict[str, Any] = check
    return answer


@pytest.mark.parametrize(
    ("shown", "verdict"),
    [
        (None, "inconclusive"),
        ({}, "fail"),
        ({"HF_HOME": "/x"}, "fail"),
        ({BATCH_LIMIT: "0"}, "fail"),
        ({BATCH_LIMIT: 0}, "fail"),
        ({BATCH_LIMIT: "1024"}, "pass"),
        ({BATCH_LIMIT: 1024}, "pass"),
        ({BATCH_LIMIT: None}, "inconclusive"),
        ({BATCH_LIMIT: ["1024"]}, "inconclusive"),
        ("none", "inconclusive"),
    ],
)
def test_the_environment_as_an_engine_may_show_it(
    shown: object, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = through_the_verb(tmp_path, capsys, shown=shown)
    assert check["verdict"] == verdict, check["reason"]


@pytest.mark.parametrize(
    ("word", "verdict"),
    [
        ("1024", "pass"),
        (1024, "pass"),
        ({"value": "1024", "by": "ann", "reason": "unit file"}, "pass"),
        ({"value": 1024, "by": "ann", "until": "2026-12-31"}, "pass"),
        ({"value": "1024", "by": "ann", "until": "2026-11-01T00:00:00Z"}, "inconclusive"),
        ("0", "fail"),
    ],
)
def test_an_attestation_in_a_capture(
    word: object, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = through_the_verb(
        tmp_path,
        capsys,
        shown=None,
        attested={BATCH_LIMIT: word},
        taken_at="2026-11-29T12:00:00Z",
    )
    assert check["verdict"] == verdict, check["reason"]
    if verdict == "pass":
        signed = isinstance(word, dict)
        assert ("the word of ann" if signed else "nobody signed") in check["reason"]
        assert check["figures"]["attested"].startswith(f"{BATCH_LIMIT}=1024")
