"""A prompt of a million tokens against raw aiohttp with ready bytes and httpx with ``json=``.

Ratios of CPU time of the sending process inside one run; the one that takes it does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench._table import Row, table_of
from common.exits import EXIT_FAIL, EXIT_PASS, EXIT_TOOL

ROOT: Final = Path(__file__).resolve().parents[1]
_TOKENS: Final = 1_048_576

Measured = Mapping[str, Any]


class BenchFault(Exception):
    """A child failed; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured: tokens of the prompt, sendings and turns of which the best counts."""

    tokens: int
    rounds: int
    turns: int


@contextlib.contextmanager
def sink() -> Iterator[str]:
    """Answer the address of a process that takes what is sent."""
    process = subprocess.Popen(
        (sys.executable, "-m", "bench._sink"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None  # noqa: S101 - asked for above
    assert process.stdin is not None  # noqa: S101 - asked for above
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()


def run_sender(wish: Mapping[str, object]) -> Measured:
    """Answer what one way took. Raises BenchFault where it fails."""
    done = subprocess.run(
        (sys.executable, "-m", "bench._sender"),
        input=json.dumps(wish),
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode != 0:
        raise BenchFault(f"sending by way of {wish['way']} ended with {done.returncode}")
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(plan: Plan) -> list[Row]:
    """Answer all rows; the ways are taken in turn, so that all share the weather."""
    best: dict[str, float] = {}
    with sink() as url:
        for _ in range(plan.turns):
            for way in ("raw", "built", "httpx", "whole"):
                found = run_sender(_wish(plan, url, way, is_warm=True))
                best[way] = min(best.get(way, found["cpu_s"]), found["cpu_s"])
                sys.stderr.write(f"  {way}: {_ms(found['cpu_s'])}\n")
        memory = run_sender(_wish(plan, url, "whole", is_warm=False))
    ready, plain = "raw aiohttp with ready bytes", "httpx with json="
    rows = (
        (f"written already, against {ready}", ("built", "raw"), 1.5),
        (f"written already, against {plain}", ("built", "httpx"), 0.1),
        (f"written and sent, against {plain}", ("whole", "httpx"), 0.1),
    )
    return [
        *(_row(plan, what, [best[way] for way in pair], goal) for what, pair, goal in rows),
        _memory_row(memory),
    ]


def _wish(plan: Plan, url: str, way: str, *, is_warm: bool) -> dict[str, object]:
    return {
        "way": way,
        "url": url,
        "tokens": plan.tokens,
        "rounds": plan.rounds,
        "is_warm": is_warm,
    }


def _row(plan: Plan, what: str, took: Sequence[float], goal: float) -> Row:
    ours, theirs = took
    return Row(
        what=f"request of {plan.tokens:,} tokens {what}",
        ratio=ours / theirs,
        goal=goal,
        how=f"{_ms(ours)} against {_ms(theirs)}",
    )


def _memory_row(found: Measured) -> Row:
    mib = [found[name] / 1024**2 for name in ("added_bytes", "body_bytes")]
    return Row(
        what="memory added at the highest, written and sent, against the body",
        ratio=found["added_bytes"] / found["body_bytes"],
        goal=2.5,
        how=f"{mib[0]:.1f} MiB against {mib[1]:.1f} MiB",
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def main(argv: Sequence[str]) -> int:
    """Measure, print the table, and answer 0 where no goal is missed."""
    parser = argparse.ArgumentParser(prog="bench long_prompt", description=__doc__)
    parser.add_argument("--tokens", type=int, default=_TOKENS)
    parser.add_argument("--rounds", type=int, default=10, help="sendings a turn, the best counts")
    parser.add_argument("--turns", type=int, default=3, help="turns, of which the best counts")
    wish = parser.parse_args(argv)
    try:
        rows = measure(Plan(tokens=wish.tokens, rounds=wish.rounds, turns=wish.turns))
    except (BenchFault, OSError, subprocess.SubprocessError, ValueError) as fault:
        sys.stderr.write(f"not measured: {fault}\n")
        return EXIT_TOOL
    sys.stdout.write(f"{table_of(rows)}\n")
    return EXIT_FAIL if any(row.verdict == "MISSED" for row in rows) else EXIT_PASS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
