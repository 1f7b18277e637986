"""No saved round, whatever is in it, makes the judge raise anything or pass on nothing."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.verdicts import Verdict
from fleet.captures import parse_capture
from probes.canary.saved import judge_saved
from probes.judgement import Check

SCHEMA = Path(__file__).resolve().parents[2] / "docs/schemas/canary-rounds.schema.json"
DEFINED = json.loads(SCHEMA.read_text("utf-8"))["$defs"]
ROW, ROUND = (sorted(DEFINED[name]["properties"]) for name in ("row", "round"))

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**13)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "answer", "refusal", "ask", "control", "length", "MK-A-4411", "\x00é"])
    | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
ROWS = st.lists(st.dictionaries(st.sampled_from(ROW), VALUES, max_size=9), max_size=6)
ROUNDS = st.dictionaries(st.sampled_from(ROUND), VALUES, max_size=5)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(document=ROUNDS, rows=ROWS, plan=st.sampled_from(["observed", "boundary", "salt", "abort"]))
def test_rubbish_in_the_right_places_never_raises(
    document: dict[str, object], rows: list[dict[str, object]], plan: str
) -> None:
    for one in ({**document, "rows": rows}, {**document, "plan": plan, "rows": rows}):
        for found in judge_saved([one]):
            assert not isinstance(found, Check) or isinstance(found.verdict, Verdict)


@settings(max_examples=150, deadline=None)
@given(value=VALUES)
def test_no_value_in_place_of_the_rounds_raises(value: object) -> None:
    capture = parse_capture(json.dumps({"nodes": [], "canary": value}))
    assert isinstance(judge_saved(capture.rounds), tuple)
    assert isinstance(judge_saved([value]), tuple)


@given(rows=ROWS)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_rows_without_an_answer_never_pass_for_a_leak(rows: list[dict[str, object]]) -> None:
    silent = [
        {name: one for name, one in row.items() if name not in {"answer", "response", "outcome"}}
        | {"status": 0}
        for row in rows
    ]
    markers = [{"text": "MK-A-4411", "tenant": "another"}]
    for found in judge_saved([{"rows": silent, "markers": markers}]):
        if isinstance(found, Check) and found.check.endswith("foreign_marker"):
            assert found.verdict is not Verdict.PASS
