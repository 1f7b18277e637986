"""The judgement as a person reads it in a terminal."""

from __future__ import annotations

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import DEFAULT_REQUIRED
from probes.judge import judge_fleet
from probes.judgement import Check, Judgement, Kind
from probes.table import render_table
from tests.probes.builders import decode, prefill, unified


def table_of(*readings: Reading) -> str:
    return render_table(judge_fleet(FleetReading(readings=readings)))


def test_the_verdict_stands_first_and_every_check_has_its_row_and_reason() -> None:
    judgement = judge_fleet(FleetReading(readings=(prefill(), decode())))
    text = render_table(judgement)
    lines = text.splitlines()
    assert lines[0] == "verdict: pass"
    for check in judgement.checks:
        assert [line for line in lines if line.startswith(check.check) and check.target in line]
        assert check.reason in text


def test_figures_carry_thousands_separators() -> None:
    text = table_of(prefill(pool=681_280, context=1_048_576), decode(context=1_048_576))
    assert "danger_band=[681,274, 1,048,575]" in text


def test_what_was_skipped_is_told_with_its_reason() -> None:
    text = table_of(unified())
    assert "skipped pair_exposure: no node is a prefill or decode node" in text


def test_advisory_checks_say_so() -> None:
    text = table_of(prefill(), decode(parallel={"tp_size": "4", "dp_size": "1"}))
    assert "fail (advisory)" in text
    assert text.startswith("verdict: pass")


def test_a_node_cannot_write_to_the_terminal() -> None:
    text = table_of(prefill(version="0.5.19\x1b]0;owned\x07"), decode("d\x1b[2J"))
    assert "\x1b" not in text
    assert "\x07" not in text


def test_what_blocks_stands_before_what_does_not() -> None:
    exposed = prefill(pool=1_024, context=4_096, version="0.5.19", parallel={"tp_size": "4"})
    text = table_of(exposed, decode(pool=8_192, context=4_096, parallel={"tp_size": "8"}))
    said = [line for line in text.split("\n\n")[2].splitlines() if not line.startswith(" ")]
    words = [line.split(": ") for line in said]
    is_required = [word[1] in DEFAULT_REQUIRED for word in words]
    assert is_required == sorted(is_required, reverse=True)
    order = ["fail", "inconclusive", "pass"]
    for half in (True, False):
        verdicts = [word[0] for word, one in zip(words, is_required, strict=True) if one is half]
        assert verdicts == sorted(verdicts, key=order.index)
        assert verdicts[0] == "fail"


def test_a_remedy_stands_under_its_check() -> None:
    lines = table_of(unified(pool=1_024, context=4_096)).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("fail: pool_covers_context"))
    # floor(1,024 / 1.25) = 819
    assert lines[first + 1].startswith("  remedy: lower the context to 819")
    assert lines[first + 2] == "    node-1: --context-length 819"


def test_a_reason_that_several_checks_share_is_told_once() -> None:
    checks = tuple(
        Check(
            check=f"boundary.{name}",
            target="router",
            verdict=Verdict.NOT_EXERCISED,
            kind=Kind.LEAK,
            reason="the pair is exposed",
        )
        for name in ("foreign_marker", "refusal")
    )
    text = render_table(Judgement(checks=checks))
    assert text.count("the pair is exposed") == 1
    assert "boundary.foreign_marker, boundary.refusal: the pair is exposed" in text
