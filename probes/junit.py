"""A judgement as JUnit XML, as CI systems read it: one test case a check."""

from __future__ import annotations

import re
from datetime import datetime
from xml.etree import ElementTree as ET

from common.verdicts import Verdict
from probes.judgement import Check, Judgement

#: What XML 1.0 cannot hold, written as an entity or not.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SUITE = "pagewarden"
#: A check that could not be made is red too, but it is no measured failure.
_ELEMENTS = {
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.INCONCLUSIVE: "error",
    Verdict.NOT_EXERCISED: "error",
}
_RED = ("failure", "error")


def render_junit(judgement: Judgement, *, name: str, at: datetime) -> str:
    """Answer the whole judgement as one test suite; ends with a line break.

    A required check that does not pass is red; an advisory one is skipped with its verdict, for it
    must not fail the job. A judgement that does not pass is red even where no check is.
    """
    suite = ET.Element("testsuite", name=f"{_SUITE} {name}", timestamp=at.isoformat(), time="0")
    _property(suite, "verdict", str(judgement.verdict))
    for check in judgement.checks:
        _add_check(suite, check)
    for one in judgement.skipped:
        case = _case(suite, check=one.check, name=one.check)
        _say(case, "skipped", message=one.reason, kind="skipped")
    if judgement.verdict is not Verdict.PASS and not any(map(suite.findall, _red_paths())):
        case = _case(suite, check="verdict", name="whole verdict")
        reason = f"the whole verdict is {judgement.verdict}: no required check passed"
        _say(case, "error", message=reason, kind=str(judgement.verdict))
    counts = {
        "tests": len(suite.findall("testcase")),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    root = ET.Element("testsuites", name=_SUITE)
    for element in (suite, root):
        for key, count in counts.items():
            element.set(key, str(count))
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _red_paths() -> list[str]:
    return [f"testcase/{element}" for element in _RED]


def _add_check(suite: ET.Element, check: Check) -> None:
    target = check.target or check.check
    name = target if check.required else f"{target} (advisory)"
    case = _case(suite, check=check.check, name=name)
    _property(case, "kind", str(check.kind))
    _property(case, "required", "true" if check.required else "false")
    for key, figure in check.figures.items():
        _property(case, f"figure.{key}", "" if figure is None else str(figure))
    if check.verdict is Verdict.PASS:
        return
    if check.required:
        _say(case, _ELEMENTS[check.verdict], message=check.reason, kind=str(check.verdict))
    else:
        message = f"advisory, {check.verdict}: {check.reason}"
        _say(case, "skipped", message=message, kind=str(check.verdict))


def _case(suite: ET.Element, *, check: str, name: str) -> ET.Element:
    return ET.SubElement(
        suite, "testcase", classname=_clean(f"{_SUITE}.{check}"), name=_clean(name), time="0"
    )


def _say(case: ET.Element, element: str, *, message: str, kind: str) -> None:
    said = ET.SubElement(case, element, message=_clean(message))
    if element in _RED:
        said.set("type", kind)
    said.text = _clean(message)


def _property(element: ET.Element, name: str, value: str) -> None:
    properties = element.find("properties")
    if properties is None:
        properties = ET.SubElement(element, "properties")
    ET.SubElement(properties, "property", name=_clean(name), value=_clean(value))


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
