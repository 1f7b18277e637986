"""When pages of a failed transfer are held: the table of the released wheels."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.reading import Attestation, FleetReading, Reading, Role
from probes.gates.deferred_release import DeferredRelease
from probes.judgement import Check, Kind, Skipped
from probes.vouched import DEFERRED_RELEASE
from tests.probes.builders import TAKEN_AT, decode, prefill, unified

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
SHOWN = {"environment": "shown"}
#: Version, back end, value of the variable (None: not set), verdict.
MATRIX = [
    ("0.5.5", "mooncake", None, FAIL),
    ("0.5.5", "mooncake", "1", FAIL),
    ("0.5.19", "mooncake", None, FAIL),
    ("0.5.19", "mooncake", "1", PASS),
    ("0.5.19", "nixl", "true", PASS),
    ("0.5.19", "mori", "1", FAIL),
    ("0.5.20", "nixl", None, FAIL),
    ("0.5.20", "ascend", "1", PASS),
    ("0.5.20", "mooncake_tcp", "0", FAIL),
    ("0.5.21", "mooncake", None, PASS),
    ("0.5.21", "mooncake_tcp", None, PASS),
    ("0.5.21", "ascend", None, PASS),
    ("0.5.21", "nixl", None, PASS),
    ("0.5.21", "nixl", "false", FAIL),
    ("0.5.21", "mori", None, FAIL),
    ("0.5.21", "mori", "1", FAIL),
    ("0.5.21", "fake", None, FAIL),
    ("0.5.22", "mori", None, PASS),
    ("0.5.23", "mori", "0", FAIL),
    ("0.5.23", "fake", None, FAIL),
    ("0.5.23", "mooncake", "perhaps", OPEN),
    ("0.5.23", "carrier_pigeon", None, OPEN),
    ("0.5.31", "mooncake", None, PASS),
    ("0.5.23+local", "mooncake", None, OPEN),
    ("0.5.24rc1", "mooncake", None, OPEN),
    (None, "mooncake", "1", OPEN),
]


def judged(reading: Reading) -> Check:
    (check,) = DeferredRelease().judge(FleetReading(readings=(reading,)))
    assert isinstance(check, Check)
    assert check.kind is Kind.CONFIG
    return check


def node(build: Any, version: str | None, back_end: str, value: str | None) -> Reading:  # noqa: ANN401
    flags = SHOWN if value is None else {**SHOWN, DEFERRED_RELEASE: value}
    reading: Reading = build(version=version, transfer_backend=back_end, flags=flags)
    return reading


@pytest.mark.parametrize(("version", "back_end", "value", "verdict"), MATRIX)
@pytest.mark.parametrize("build", [prefill, decode])
def test_the_matrix(
    build: Any,  # noqa: ANN401
    version: str | None,
    back_end: str,
    value: str | None,
    verdict: Verdict,
) -> None:
    check = judged(node(build, version, back_end, value))
    assert check.verdict is verdict, check.reason
    assert check.figures["transfer_backend"] == back_end
    assert check.figures["environment"] == (value or "not set")


def test_an_environment_that_is_not_shown_is_told() -> None:
    check = judged(prefill(version="0.5.22", transfer_backend="mooncake"))
    assert (check.verdict, check.figures["environment"]) == (PASS, "not shown")
    assert "its environment is not shown" in check.reason
    old = judged(prefill(version="0.5.20", transfer_backend="mooncake"))
    assert old.verdict is FAIL


def test_mori_on_0_5_21_is_told_to_upgrade() -> None:
    assert "upgrade it to 0.5.22" in judged(node(decode, "0.5.21", "mori", None)).reason


def attested(value: str, **over: Any) -> Reading:  # noqa: ANN401
    word = Attestation(key=DEFERRED_RELEASE, value=value, by="ann", reason="unit file", **over)
    return prefill(version="0.5.20", transfer_backend="nixl", attested={word.key: word})


def test_an_attestation_counts_and_is_named() -> None:
    check = judged(attested("1"))
    assert check.verdict is PASS
    assert f"the word of ann (unit file) for {DEFERRED_RELEASE}" in check.reason
    assert check.figures["attested"] == f"{DEFERRED_RELEASE}=1 by ann"


def test_an_expired_attestation_counts_as_absent() -> None:
    assert judged(attested("1", until=TAKEN_AT)).verdict is FAIL
    assert judged(attested("1", until=TAKEN_AT + timedelta(seconds=1))).verdict is PASS


def test_the_engines_own_word_beats_a_persons() -> None:
    word = Attestation(key=DEFERRED_RELEASE, value="1", by="ann")
    reading = prefill(
        version="0.5.22",
        transfer_backend="nixl",
        flags={**SHOWN, DEFERRED_RELEASE: "0"},
        attested={word.key: word},
    )
    check = judged(reading)
    assert check.verdict is FAIL
    assert "attested" not in check.figures


@pytest.mark.parametrize(
    "over",
    [
        {"transfer_backend": None},
        {"problem": "timed out"},
        {"reported_role": Role.UNIFIED},
        {"reported_role": None},
    ],
)
def test_what_is_not_known_is_inconclusive(over: dict[str, Any]) -> None:
    known = {"version": "0.5.23", "transfer_backend": "mooncake"}
    assert judged(prefill(**{**known, **over})).verdict is OPEN


def test_unified_nodes_and_other_engines_are_skipped() -> None:
    for reading in (unified(), prefill(engine="vllm")):
        (found,) = DeferredRelease().judge(FleetReading(readings=(reading,)))
        assert isinstance(found, Skipped)


@given(
    st.none() | st.text(max_size=12) | st.sampled_from(["0.5.19", "0.5.21", "0.5.23"]),
    st.none() | st.text(max_size=8) | st.sampled_from(["mooncake", "mori", "fake"]),
    st.none() | st.text(max_size=6),
)
def test_it_never_passes_without_version_and_back_end(
    version: str | None, back_end: str | None, value: str | None
) -> None:
    flags = {**SHOWN, DEFERRED_RELEASE: value}
    check = judged(decode(version=version, transfer_backend=back_end, flags=flags))
    if check.verdict is PASS:
        assert version
        assert back_end
