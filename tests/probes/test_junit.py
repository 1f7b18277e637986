"""JUnit XML: what CI systems count, and what must never be green."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.exits import UsageError
from common.verdicts import Verdict
from probes.judgement import Check, Judgement, Kind, Skipped
from probes.junit import render_junit
from probes.verbs import judge

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
READINGS = Path(__file__).resolve().parent.parent / "data" / "sglang" / "readings"


def check(verdict: Verdict, *, required: bool = True, reason: str = "why") -> Check:
    return Check(
        check="pool_covers_context",
        target="prefill-1",
        verdict=verdict,
        kind=Kind.CONFIG,
        reason=reason,
        required=required,
        figures={"pool": 5, "band": [1, 2], "none": None},
    )


def counted(judgement: Judgement) -> tuple[ET.Element, dict[str, int]]:
    """Answer the suite as a CI system counts it: by elements, and by the attributes alike."""
    root = ET.fromstring(render_junit(judgement, name="gate", at=AT))  # noqa: S314 - our own
    (suite,) = root.findall("testsuite")
    found = {
        "tests": len(suite.findall("testcase")),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    assert {key: int(suite.attrib[key]) for key in found} == found
    assert {key: int(root.attrib[key]) for key in found} == found
    for case in suite.findall("testcase"):
        assert case.attrib["classname"]
        assert case.attrib["name"]
        assert len(case.findall("*")) - len(case.findall("properties")) <= 1
    return suite, found


@pytest.mark.parametrize(
    ("verdict", "element"),
    [
        (Verdict.PASS, None),
        (Verdict.FAIL, "failures"),
        (Verdict.ERROR, "errors"),
        (Verdict.INCONCLUSIVE, "errors"),
        (Verdict.NOT_EXERCISED, "errors"),
    ],
)
def test_only_a_pass_is_green(verdict: Verdict, element: str | None) -> None:
    _, found = counted(Judgement(checks=(check(verdict),)))
    assert found == {
        "tests": 1,
        "failures": int(element == "failures"),
        "errors": int(element == "errors"),
        "skipped": 0,
    }


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.PASS])
def test_an_advisory_check_is_told_and_not_red(verdict: Verdict) -> None:
    judgement = Judgement(checks=(check(Verdict.PASS), check(verdict, required=False)))
    suite, found = counted(judgement)
    assert found == {"tests": 2, "failures": 0, "errors": 0, "skipped": 1}
    (skipped,) = suite.findall("testcase/skipped")
    assert verdict in skipped.attrib["message"]
    assert any("advisory" in case.attrib["name"] for case in suite.findall("testcase"))


def test_a_judgement_that_proves_nothing_is_red() -> None:
    _, found = counted(Judgement(checks=(check(Verdict.PASS, required=False),)))
    assert found["errors"] == 1
    _, found = counted(Judgement(checks=()))
    assert found["errors"] == 1


def test_what_does_not_apply_is_skipped_with_its_reason() -> None:
    judgement = Judgement(
        checks=(check(Verdict.PASS),),
        skipped=(Skipped(check="pair_exposure", reason="no <pair> & no more"),),
    )
    suite, found = counted(judgement)
    assert found["skipped"] == 1
    (skipped,) = suite.findall("testcase/skipped")
    assert skipped.attrib["message"] == "no <pair> & no more"


@given(st.text(max_size=80))
def test_any_reason_makes_xml_that_can_be_read(reason: str) -> None:
    counted(Judgement(checks=(check(Verdict.FAIL, reason=reason),)))


def test_the_verb_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "gate.xml"
    recording = str(READINGS / "0.5.23-pd-1024-4096.json")
    assert judge.main([recording, "--junit", str(path)]) == 1
    suite = ET.parse(path).getroot().find("testsuite")  # noqa: S314 - our own
    assert suite is not None
    assert int(suite.attrib["failures"]) >= 1
    red = {
        case.attrib["classname"]
        for case in suite.findall("testcase")
        if case.find("failure") is not None
    }
    assert "pagewarden.pool_covers_context" in red
    with pytest.raises(UsageError, match="cannot be written"):
        judge.main([recording, "--junit", str(tmp_path / "none" / "gate.xml")])
