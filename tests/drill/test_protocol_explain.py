"""`drill explain`: exit codes, what is said first, and the same for a program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drill.__main__ import main
from drill.protocol.explore import Trace, TraceStep
from drill.protocol.findings import FINDING_WORDS, Finding
from drill.protocol.guards import GUARD_WORDS, ProtocolGuards, guards_named
from drill.protocol.moves import moves
from drill.protocol.state import Setup, State
from drill.protocol.steps import Kind
from drill.protocol.words import lines


def explain(*argv: str) -> int:
    return main(["explain", *argv])


def test_without_options_it_tells_the_incident_and_says_reachable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explain() == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "guards: none; limits: unequal"
    assert out[1].startswith("A read of a foreign page IS REACHABLE, in 3 ways")
    assert " states, " in out[2]
    first = out.index(f"refused-prompt: {FINDING_WORDS[Finding.REFUSED_PROMPT]}")
    actors = [line.split()[1] for line in out[first + 2 : first + 9]]
    assert actors == ["decode", "prefill", "prefill", "prefill", "decode", "decode", "client"]
    cures = out[first + 9]
    assert cures.startswith("  closed by one more guard: door (engine 0.5.21 or later); retire (")
    assert "checksum (" in cures
    assert "page-tags (in no engine yet)" in cures
    assert "deferred-release" not in cures


@pytest.mark.parametrize("guards", ["page-tags", "retire,deferred-release,bounded-transfer", "all"])
def test_enough_guards_end_with_0(guards: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--guards", guards) == 0
    assert "No read of a foreign page can be reached." in capsys.readouterr().out


def _json(capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401 a document
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def test_a_program_gets_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--engine-version", "0.5.22", "--json") == 1
    told = _json(capsys)
    assert told["is_foreign_read_reachable"] is True
    assert told["engine_version"] == "0.5.22"
    assert told["guards"] == ["door", "retire", "deferred-release"]
    assert told["explored"]["is_exhaustive"] is True
    assert told["explored"]["states"] > 1000
    traces = {one["finding"]: one for one in told["traces"]}
    assert [name for name, one in traces.items() if one["is_foreign_read"]] == ["late-write"]
    assert traces["late-write"]["closed_by_adding"] == ["bounded-transfer", "page-tags"]
    moved = [step["move"] for step in traces["late-write"]["steps"]]
    assert moved.index("post") < moved.index("hold-timeout") < moved.index("land")
    assert moved.index("land") < moved.index("read") < moved.index("answer")
    assert "300 s" in traces["held-reservation"]["then"]
    assert told["not_reachable"] == [
        "refused-prompt",
        "reused-source",
        "unwritten-page",
        "page-owned-twice",
    ]


def test_equal_limits_end_the_held_reservation(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--guards", "all", "--limits", "equal", "--json") == 0
    told = _json(capsys)
    assert [one["finding"] for one in told["traces"]] == ["waits-for-ever"]
    assert "for ever" in told["traces"][0]["then"]


def test_a_tier_adds_its_own_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--guards", "door,checksum", "--tier", "--json") == 1
    traces = {one["finding"]: one for one in _json(capsys)["traces"]}
    assert "host-copy" in traces
    last = traces["host-copy"]["steps"][-1]
    assert last["actor"] == "host"
    assert "what tenant A's request left" in last["text"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--guards", "wall"], "no guard is called 'wall'; there are: door, retire"),
        (["--guards", ""], "no guard is called ''"),
        (["--engine-version", "newest"], "'newest' cannot be read"),
        (["--engine-version", "0.4.9"], "0.4.9 is older than 0.5.5"),
        (["--engine-version", "0.5.19", "--guards", "door"], "not allowed with"),
        (["--limits", "odd"], "invalid choice"),
        (["--loud"], "unrecognized arguments"),
    ],
)
def test_wrong_usage_is_one_line_and_4(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(*argv) == 4
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("drill explain: ")
    assert said in err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_comparison_names_what_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--compare") == 0
    out = capsys.readouterr().out
    rows = out.split("\n\n")[0].splitlines()[1:]
    assert len(rows) == 2 ** len(GUARD_WORDS)
    assert rows[0].split()[-3:] == ["late-write,", "refused-prompt,", "reused-source"]
    assert "  page-tags\n" in out


def test_every_kind_of_move_has_words() -> None:
    """Every move of a small protocol, under each guard alone and under none."""
    setup = Setup(
        decode_pages=4,
        prefill_longest=1,
        decode_longest=2,
        lengths=(1, 2, 3),
        requests=1,
        has_tier=True,
    )
    told: dict[Kind, str] = {}
    for guards in (ProtocolGuards(), *(guards_named([name]) for name in GUARD_WORDS)):
        for step in _steps(setup, guards):
            trace = Trace(finding=Finding.LATE_WRITE, start=step.before, steps=(step,))
            (line,) = lines(trace, setup)
            told[step.move.kind] = line.text
    assert set(told) == set(Kind)
    assert all(
        "tenant B's request" in text for kind, text in told.items() if kind is not Kind.COMPUTE
    )
    assert all("{" not in text for text in told.values())


def _steps(setup: Setup, guards: ProtocolGuards) -> list[TraceStep]:
    seen: set[State] = set(setup.starts())
    waiting, steps = list(seen), []
    while waiting:
        state = waiting.pop()
        for move, after in moves(state, guards, setup):
            steps.append(TraceStep(move=move, before=state, after=after))
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return steps
