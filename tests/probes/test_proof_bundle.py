"""Signed proofs: DSSE to the letter, what tampering comes to, and the nodes as they are now."""

from __future__ import annotations

import base64
import json
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import time_machine
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from common.exits import UsageError
from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.judge import judge_fleet
from probes.proof_bundle import (
    PAYLOAD_TYPE,
    BadKey,
    BrokenProof,
    GateProof,
    new_keys,
    open_proof,
    pae,
    sign,
    statement_of,
)
from probes.proof_check import check_proof
from probes.verbs import gate
from tests.deployments import DrillCluster, DrillStarter
from tests.probes.builders import decode, prefill

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
PRIVATE, PUBLIC = (one.encode() for one in new_keys())


def fleet(*readings: Reading, **over: Any) -> FleetReading:  # noqa: ANN401 - any field
    nodes = readings or (
        prefill(url="http://127.0.0.1:1"),
        decode(url="http://127.0.0.1:2", counters={"a": 5.0}),
    )
    return FleetReading(readings=nodes, **over)


def envelope_of(look: FleetReading) -> bytes:
    judgement = judge_fleet(look)
    assert judgement.verdict is Verdict.PASS
    payload = statement_of(look, judgement.document(), issuer="pagewarden test", issued_at=AT)
    return sign(payload, PRIVATE).encode()


ENVELOPE = envelope_of(fleet())


def verdict_of(proof: GateProof, look: FleetReading | None, at: datetime = AT) -> Verdict:
    return check_proof(proof, target="p", at=at, live=look).verdict


def test_what_is_signed_is_encoded_as_dsse_says() -> None:
    """The example of the specification (protocol.md, "PAE")."""
    payload_type = "http://example.com/HelloWorld"
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae(payload_type, b"hello world") == expected
    assert pae("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_the_envelope_is_what_other_tools_read() -> None:
    document = json.loads(ENVELOPE)
    assert document["payloadType"] == PAYLOAD_TYPE
    payload = base64.b64decode(document["payload"], validate=True)
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    for subject in statement["subject"]:
        assert len(bytes.fromhex(subject["digest"]["sha256"])) == 32
    (signature,) = document["signatures"]
    key = load_pem_private_key(PRIVATE, password=None)
    # Ed25519 signs the same bytes to the same signature (RFC 8032).
    again = key.sign(pae(PAYLOAD_TYPE, payload))  # type: ignore[call-arg, union-attr]
    assert base64.b64decode(signature["sig"]) == again


def test_what_was_signed_comes_back() -> None:
    proof = open_proof(ENVELOPE, PUBLIC)
    assert {one.name: one.fingerprint for one in proof.nodes} == {
        one.node: one.fingerprint for one in fleet().readings
    }
    assert (proof.verdict, proof.issued_at) == ("pass", AT)
    assert proof.expires_at - proof.issued_at == timedelta(hours=24)
    assert verdict_of(proof, fleet()) is Verdict.PASS
    assert verdict_of(proof, None) is Verdict.PASS


@given(st.integers(0, len(ENVELOPE) - 1), st.integers(1, 255))
def test_no_altered_byte_goes_unseen(position: int, change: int) -> None:
    """Outside of type, payload and signature the text may change; what it says may not."""
    altered = bytearray(ENVELOPE)
    altered[position] ^= change
    try:
        proof = open_proof(bytes(altered), PUBLIC)
    except BrokenProof:
        return
    assert proof == open_proof(ENVELOPE, PUBLIC)


@given(st.binary(max_size=200))
def test_no_other_payload_is_taken_under_the_signature(payload: bytes) -> None:
    document = json.loads(ENVELOPE)
    if payload == base64.b64decode(document["payload"]):
        return
    document["payload"] = base64.b64encode(payload).decode()
    with pytest.raises(BrokenProof):
        open_proof(json.dumps(document).encode(), PUBLIC)


@given(st.binary(max_size=200))
def test_no_bytes_are_an_envelope_by_chance(text: bytes) -> None:
    with pytest.raises(BrokenProof):
        open_proof(text, PUBLIC)


def test_another_key_proves_nothing() -> None:
    _, other = new_keys()
    with pytest.raises(BrokenProof, match="no signature"):
        open_proof(ENVELOPE, other.encode())


def test_a_signature_over_another_type_is_refused() -> None:
    document = json.loads(ENVELOPE) | {"payloadType": "text/plain"}
    with pytest.raises(BrokenProof, match="another type"):
        open_proof(json.dumps(document).encode(), PUBLIC)


def test_one_good_signature_among_others_is_enough() -> None:
    document = json.loads(ENVELOPE)
    bad = {"keyid": "x", "sig": base64.b64encode(bytes(64)).decode()}
    document["signatures"] = [bad, 7, {}, *document["signatures"]]
    assert open_proof(json.dumps(document).encode(), PUBLIC)


def test_a_signed_text_that_is_no_proof_is_refused() -> None:
    for payload in (b"{}", b"[]", b'{"predicateType": "urn:pagewarden:gate-proof:1"}', b"x"):
        with pytest.raises(BrokenProof):
            open_proof(sign(payload, PRIVATE).encode(), PUBLIC)


def test_keys_of_other_kinds_are_refused_and_never_shown() -> None:
    other = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = other.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for key in (pem, b"", b"secret words", PUBLIC):
        with pytest.raises(BadKey) as refused:
            sign(b"", key)
        assert "secret words" not in str(refused.value)
    with pytest.raises(BadKey):
        open_proof(ENVELOPE, PRIVATE)


PROOF = open_proof(ENVELOPE, PUBLIC)


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (fleet(fleet().readings[0]), Verdict.INCONCLUSIVE),
        (fleet(*fleet().readings, prefill("p2", url="http://127.0.0.1:3")), Verdict.INCONCLUSIVE),
        (
            fleet(fleet().readings[0], replace(fleet().readings[1], pool=20_479)),
            Verdict.FAIL,
        ),
        (
            fleet(fleet().readings[0], replace(fleet().readings[1], started="later")),
            Verdict.FAIL,
        ),
        (
            fleet(fleet().readings[0], replace(fleet().readings[1], counters={"a": 4.0})),
            Verdict.FAIL,
        ),
        (
            fleet(fleet().readings[0], replace(fleet().readings[1], problem="it is silent")),
            Verdict.INCONCLUSIVE,
        ),
        (fleet(headroom=Decimal("1.3")), Verdict.INCONCLUSIVE),
        (fleet(advertised=20_000), Verdict.INCONCLUSIVE),
        (fleet(*reversed(fleet().readings)), Verdict.PASS),
    ],
)
def test_nodes_as_they_are_now(look: FleetReading, expected: Verdict) -> None:
    assert verdict_of(PROOF, look) is expected


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (timedelta(hours=23, minutes=59), Verdict.PASS),
        (timedelta(hours=24), Verdict.INCONCLUSIVE),
        (timedelta(minutes=-4), Verdict.PASS),
        (timedelta(minutes=-6), Verdict.INCONCLUSIVE),
    ],
)
def test_age(later: timedelta, expected: Verdict) -> None:
    assert verdict_of(PROOF, None, AT + later) is expected


def test_a_signed_fail_opens_no_door() -> None:
    assert verdict_of(replace(PROOF, verdict="fail"), None) is Verdict.FAIL
    assert verdict_of(replace(PROOF, nodes=()), None) is Verdict.INCONCLUSIVE


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, str]:
    assert gate.main(["--new-proof-key", str(tmp_path / "ci")]) == 0
    return str(tmp_path / "ci.key"), str(tmp_path / "ci.pub")


def addresses(drill: DrillCluster) -> list[str]:
    return [part for node in drill.nodes for part in (f"--{node['role']}", node["url"])]


def test_new_keys_are_private_and_replace_nothing(
    tmp_path: Path, keys: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert stat.S_IMODE(Path(keys[0]).stat().st_mode) == 0o600
    shown = capsys.readouterr()
    assert "PRIVATE KEY" not in shown.out + shown.err
    with pytest.raises(UsageError, match="exists already"):
        gate.main(["--new-proof-key", str(tmp_path / "ci")])


def test_the_whole_way(
    start_drill: DrillStarter,
    tmp_path: Path,
    keys: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    healthy, other = (start_drill("--scenario", "healthy") for _ in range(2))
    path = tmp_path / "gate.proof.json"
    asked = ["--engine", "sglang", *addresses(healthy)]
    signed = [*asked, "--proof", str(path), "--proof-key-file", keys[0]]
    check = ["--verify-proof", str(path), "--proof-public-key-file", keys[1]]
    assert gate.main(signed) == 0
    assert gate.main(check) == 0
    assert gate.main([*check, *asked]) == 0
    assert gate.main([*check, *asked[:4]]) == 2
    assert gate.main([*check, "--engine", "sglang", *addresses(other)]) == 2
    capsys.readouterr()
    assert gate.main([*check, *asked, "--json"]) == 0
    judgement = json.loads(capsys.readouterr().out)
    assert judgement["verdict"] == "pass"
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=25)):
        assert gate.main(check) == 2
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"payload": "', '"payload": "A'), encoding="utf-8")
    assert gate.main(check) == 1


def test_without_a_pass_there_is_no_proof_and_an_older_one_goes(
    start_drill: DrillStarter, tmp_path: Path, keys: tuple[str, str]
) -> None:
    september = start_drill("--scenario", "september")
    path = tmp_path / "gate.proof.json"
    path.write_bytes(ENVELOPE)
    signed = ["--proof", str(path), "--proof-key-file", keys[0]]
    assert gate.main(["--engine", "sglang", *addresses(september), *signed]) == 1
    assert not path.exists()
    path.write_text("somebody's notes", encoding="utf-8")
    assert gate.main(["--engine", "sglang", *addresses(september), *signed]) == 1
    assert path.read_text(encoding="utf-8") == "somebody's notes"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--engine", "sglang", "--unified", "http://127.0.0.1:1", "--proof", "x"],
        ["--engine", "sglang", "--unified", "http://127.0.0.1:1", "--proof-key-file", "x"],
        ["--engine=sglang", "--proof=x", "--proof-key-file=there-is-no-such.key"],
        ["--verify-proof", "there-is-no-such.json"],
        ["--verify-proof", "there-is-no-such.json", "--proof-public-key-file", "none.pub"],
        ["--verify-proof", "x", "--proof", "y", "--proof-public-key-file", "none.pub"],
        ["--unified", "http://127.0.0.1:1"],
        [],
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        gate.main(arguments)
    assert "\n" not in str(refused.value)
