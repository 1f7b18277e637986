"""Which nodes end a refused prompt at the door."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.verdicts import Verdict
from fleet.reading import Attestation, FleetReading, Reading, Role
from probes.exercised import process_print, refusals_exercised
from probes.gates.safe_rejection import IMAGE, PATCH, SafeRejection
from probes.judgement import Check, Skipped
from tests.probes.builders import decode, prefill, unified


def judged(*readings: Reading) -> list[Check | Skipped]:
    return list(SafeRejection().judge(FleetReading(readings=readings)))


def verdict_of(reading: Reading) -> Verdict:
    (check,) = judged(reading)
    assert isinstance(check, Check)
    assert check.target == reading.node
    return check.verdict


@pytest.mark.parametrize("version", ["0.4.0", "0.5.5", "0.5.19", "0.5.20", "0.5.20.post1"])
def test_up_to_0_5_20_it_fails_on_either_side(version: str) -> None:
    assert verdict_of(prefill(version=version)) is Verdict.FAIL
    assert verdict_of(decode(version=version)) is Verdict.FAIL


@pytest.mark.parametrize("version", ["0.5.21", "0.5.22", "0.5.23"])
def test_from_0_5_21_it_passes(version: str) -> None:
    assert verdict_of(prefill(version=version)) is Verdict.PASS
    assert verdict_of(decode(version=version)) is Verdict.PASS


def test_a_newer_final_release_passes_with_a_note() -> None:
    (check,) = judged(prefill(version="0.5.31"))
    assert isinstance(check, Check)
    assert check.verdict is Verdict.PASS
    assert "0.5.31 is newer than the last release read (0.5.23)" in check.reason


@pytest.mark.parametrize("version", [None, "nightly", "0.5.24rc1", "0.5.24.dev1", "0.5.23+local"])
def test_what_a_version_does_not_tell_is_inconclusive(version: str | None) -> None:
    assert verdict_of(prefill(version=version)) is Verdict.INCONCLUSIVE


def test_another_engine_is_inconclusive() -> None:
    assert verdict_of(prefill(engine="vllm")) is Verdict.INCONCLUSIVE


def test_the_wrong_or_an_unshown_role_never_passes() -> None:
    assert verdict_of(prefill(reported_role=Role.UNIFIED)) is Verdict.INCONCLUSIVE
    assert verdict_of(prefill(reported_role=None)) is Verdict.INCONCLUSIVE
    assert verdict_of(unified(reported_role=Role.PREFILL)) is Verdict.INCONCLUSIVE


def test_a_silent_node_is_inconclusive() -> None:
    assert verdict_of(replace(decode(), problem="timed out")) is Verdict.INCONCLUSIVE


def test_unified_nodes_are_skipped_by_name() -> None:
    found = judged(prefill(), unified("lonely", version="0.5.19"))
    skipped = [one for one in found if isinstance(one, Skipped)]
    assert [check.target for check in found if isinstance(check, Check)] == ["prefill-1"]
    assert "lonely" in skipped[0].reason


DIGEST = "sha256:" + "a" * 64


def patched(image: str | None = DIGEST, version: str | None = "0.5.20") -> Reading:
    values = {PATCH: DIGEST, IMAGE: image}
    return prefill(
        version=version,
        attested={
            key: Attestation(key=key, value=value, by="ann")
            for key, value in values.items()
            if value is not None
        },
    )


def round_of(reading: Reading, outcome: str = "refused", **over: Any) -> dict[str, object]:  # noqa: ANN401
    return {
        "way": "pair",
        "target": f"pair {reading.node}/decode-1",
        "fingerprints": {reading.node: process_print(reading)},
        "rows": [
            {"duty": "answer", "outcome": "answered"},
            {"duty": "refusal", "outcome": outcome},
        ],
        **over,
    }


def after(reading: Reading, *rounds: object) -> Check:
    fleet = FleetReading(readings=(reading,), refused=refusals_exercised([reading], rounds))
    (check,) = SafeRejection().judge(fleet)
    assert isinstance(check, Check)
    return check


def test_an_attested_patch_alone_is_inconclusive_and_says_what_is_missing() -> None:
    check = after(patched())
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "no canary round is at hand" in check.reason
    assert "the word of ann" in check.reason
    assert "patch.38935" in str(check.figures["attested"])


@pytest.mark.parametrize("version", ["0.5.19", "0.5.20", "0.5.20+ours", None])
def test_an_attested_patch_with_an_exercised_refusal_is_believed(version: str | None) -> None:
    reading = patched(version=version)
    check = after(reading, round_of(reading))
    assert check.verdict is Verdict.PASS
    assert "ann" in str(check.figures["attested"])


def test_a_patch_that_is_bound_to_no_image_is_not_believed() -> None:
    reading = patched(image=None)
    assert after(reading, round_of(reading)).verdict is Verdict.INCONCLUSIVE


def test_a_patch_in_another_image_counts_for_nothing() -> None:
    reading = patched(image="sha256:" + "b" * 64)
    assert after(reading, round_of(reading)).verdict is Verdict.FAIL


def test_a_round_without_a_patch_is_not_enough() -> None:
    reading = prefill(version="0.5.20")
    assert after(reading, round_of(reading)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "over",
    [
        {"rows": []},
        {"rows": "none"},
        {"rows": [{"duty": "refusal", "outcome": "no_answer"}]},
        {"rows": [{"duty": "refusal", "outcome": "refused"}, {"duty": "refusal"}]},
        {"target": "pair prefill-9/decode-1"},
        {"fingerprints": {"prefill-1": "0" * 64}},
        {"fingerprints": None},
        {"way": "router"},
        {"way": None},
    ],
)
def test_a_round_that_proves_nothing_of_this_process_does_not_count(
    over: dict[str, Any],
) -> None:
    reading = patched()
    assert after(reading, round_of(reading, **over)).verdict is Verdict.INCONCLUSIVE


def test_a_process_that_restarted_since_does_not_count() -> None:
    reading = patched()
    restarted = replace(reading, started="later")
    assert after(restarted, round_of(reading)).verdict is Verdict.INCONCLUSIVE


def test_a_process_whose_restart_would_not_show_does_not_count() -> None:
    reading = replace(patched(), started=None)
    assert after(reading, round_of(reading)).verdict is Verdict.INCONCLUSIVE


def test_any_document_is_taken() -> None:
    documents: tuple[object, ...] = (None, 7, [], "x", {"rows": {}}, {"fingerprints": []})
    for document in documents:
        assert after(patched(), document).verdict is Verdict.INCONCLUSIVE
