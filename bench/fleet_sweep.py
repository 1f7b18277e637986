"""A sweep of a fleet against raw aiohttp and Prometheus' blackbox exporter, on the same bytes.

Ratios of CPU time of the asking process inside one run; serving and the database do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench._blackbox import NotMeasured, probe_cpu_s
from bench._table import Row, table_of
from common.exits import EXIT_FAIL, EXIT_PASS, EXIT_TOOL, ToolError
from config.up.scratch import scratch_store

ROOT: Final = Path(__file__).resolve().parents[1]
CONCURRENCY: Final = 64
#: The two routes that a verdict rests on, and all that a sweep asks of an SGLang 0.5.22 node.
TWO: Final = ("/server_info", "/v1/models")
ALL: Final = (*TWO, "/v1/loads", "/metrics", "/model_info")
_PER_CENT: Final = 100

Measured = Mapping[str, Any]


class BenchFault(Exception):
    """Something was not as it must be to measure; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured: nodes, nodes of the small fleet, rounds of which the best counts.

    ``may_install`` lets the peer be installed where it is missing.
    """

    nodes: int
    small: int
    rounds: int
    may_install: bool = True


def run_child(module: str, wish: Mapping[str, object], env: Mapping[str, str]) -> Measured:
    """Answer what a child prints. Raises BenchFault where it fails."""
    done = subprocess.run(  # noqa: S603 - our own modules
        (sys.executable, "-m", module),
        input=json.dumps(wish),
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=dict(env),
        check=False,
    )
    if done.returncode != 0:
        raise BenchFault(f"{module} ended with {done.returncode}")
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


@contextlib.contextmanager
def serving(count: int, hung: int) -> Iterator[list[str]]:
    """Answer the addresses of that many nodes, ``hung`` of them silent."""
    process = subprocess.Popen(  # noqa: S603 - our own module
        (sys.executable, "-m", "bench._nodes", str(count), str(hung)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None  # noqa: S101 - asked for above
    assert process.stdin is not None  # noqa: S101 - asked for above
    try:
        said = json.loads(process.stdout.readline())
        yield [f"http://{address}:{said['port']}" for address in said["addresses"]]
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()


class Bench:
    """Measures all rows over one fleet and one throw-away database."""

    def __init__(self, plan: Plan, env: Mapping[str, str]) -> None:
        self._plan = plan
        self._env = env

    def rows(self) -> list[Row]:
        """Answer every row, in the order of the issue."""
        with serving(self._plan.nodes, 0) as urls:
            self._store({"way": "fill", "urls": urls})
            first = self._sweep(routes=len(TWO))
            _say("first sweep", first)
            two = self._against_raw(urls, TWO)
            every = self._against_raw(urls, ALL)
            fetched = self._fetch_row(urls)
            small = self._sweep(routes=len(TWO), nodes=self._plan.small)
        hung = self._hung_row()
        return [
            two.row("pipeline, two GETs a node", goal=2.5),
            every.row("pipeline, all five GETs a node", goal=2.5),
            self._first_row(first, two),
            fetched,
            hung,
            _memory_row(two.sweep, small, self._plan),
        ]

    def _store(self, wish: Mapping[str, object]) -> None:
        run_child("bench._sweeper", wish, self._env)

    def _sweep(self, *, routes: int, nodes: int | None = None) -> Measured:
        wish = {"way": "sweep", "routes": routes, "nodes": nodes}
        return run_child("bench._sweeper", wish, self._env)

    def _ask(self, way: str, urls: Sequence[str], paths: Sequence[str]) -> Measured:
        wish = {"way": way, "urls": urls, "paths": paths, "concurrency": CONCURRENCY}
        return run_child("bench._client", wish, self._env)

    def _against_raw(self, urls: Sequence[str], paths: Sequence[str]) -> _Pair:
        """Answer the best of some rounds of each, taken in turn so that both share the weather."""
        raws, sweeps = [], []
        # The first sweep over these routes finds other fingerprints than the last one did.
        self._sweep(routes=len(paths))
        for _ in range(self._plan.rounds):
            raws.append(self._ask("raw", urls, paths))
            sweeps.append(self._sweep(routes=len(paths)))
            _say("raw", raws[-1])
            _say("sweep", sweeps[-1])
        return _Pair(raw=_best(raws), sweep=_best(sweeps), nodes=len(urls))

    def _first_row(self, first: Measured, pair: _Pair) -> Row:
        return Row(
            what="pipeline, two GETs a node, every deployment new (each leaves an audit)",
            ratio=first["cpu_s"] / pair.raw["cpu_s"],
            goal=None,
            how=f"{_us(first, pair.nodes)} a node",
        )

    def _fetch_row(self, urls: Sequence[str]) -> Row:
        what = "fetch layer against blackbox exporter, per GET"
        gets = len(urls) * len(TWO)
        ours = _best([self._ask("fetch", urls, TWO) for _ in range(self._plan.rounds)])
        _say("fetch", ours)
        probed = urls[: max(len(urls) // 5, 1)]
        try:
            theirs = probe_cpu_s(
                [url + path for url in probed for path in TWO],
                may_install=self._plan.may_install,
            )
        except NotMeasured as why:
            return Row(what=what, ratio=None, goal=0.9, how=f"{why}; ours {_us(ours, gets)}")
        probe = {"cpu_s": theirs}
        probes = len(probed) * len(TWO)
        return Row(
            what=what,
            ratio=(ours["cpu_s"] / gets) / (theirs / probes),
            goal=0.9,
            how=f"{_us(ours, gets)} against {_us(probe, probes)}",
        )

    def _moved_sweep(self, hung: int) -> Measured:
        """Answer a sweep of the same nodes at new addresses, ``hung`` of them silent."""
        with serving(self._plan.nodes, hung) as urls:
            self._store({"way": "move", "urls": urls})
            return self._sweep(routes=len(TWO))

    def _hung_row(self) -> Row:
        """Compare sweeps taken in turn; a difference below zero is noise, and no measurement."""
        hung = max(self._plan.nodes // _PER_CENT, 1)
        without, among = [], []
        for _ in range(self._plan.rounds):
            without.append(self._moved_sweep(0))
            among.append(self._moved_sweep(hung))
            _say("none hung", without[-1])
            _say("hung", among[-1])
            if among[-1]["outcomes"].get("timeout") != hung:
                raise BenchFault(f"{hung} nodes hang, but the sweep says {among[-1]['outcomes']}")
        base_s, with_s = (min(float(one["wall_s"]) for one in each) for each in (without, among))
        floor_s = math.ceil(hung / CONCURRENCY) * int(among[0]["timeout_s"])
        ratio = (with_s - base_s) / floor_s
        return Row(
            what=f"1 % black holes ({hung}), time added against ceil(hung / concurrency) x timeout",
            ratio=ratio if ratio >= 0 else None,
            goal=1.2,
            how=f"{base_s:.1f} s without, {with_s:.1f} s with; {floor_s} s",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """The product's sweep and raw aiohttp over the same nodes and routes."""

    raw: Measured
    sweep: Measured
    nodes: int

    def row(self, what: str, *, goal: float) -> Row:
        """Answer the row; a sweep that did not read every node measures nothing."""
        if not self.sweep["is_over"] or self.sweep["outcomes"] != {"read": self.nodes}:
            raise BenchFault(f"the sweep did not read all: {self.sweep['outcomes']}")
        return Row(
            what=f"{what} against raw aiohttp",
            ratio=self.sweep["cpu_s"] / self.raw["cpu_s"],
            goal=goal,
            how=f"{_us(self.sweep, self.nodes)} against {_us(self.raw, self.nodes)} a node",
        )


def _memory_row(large: Measured, small: Measured, plan: Plan) -> Row:
    mib = [one["rss_kb"] / 1024 for one in (large, small)]
    return Row(
        what=f"memory of a sweep of {plan.nodes:,} nodes against {plan.small:,}",
        ratio=mib[0] / mib[1],
        goal=1.5,
        how=f"{mib[0]:.0f} MiB against {mib[1]:.0f} MiB at the highest",
    )


def _best(found: Sequence[Measured]) -> Measured:
    """Answer the one with the least CPU time: what is more came from other work of the machine."""
    return min(found, key=lambda one: float(one["cpu_s"]))


def _us(measured: Mapping[str, Any], pieces: int) -> str:
    return f"{measured['cpu_s'] / pieces * 1e6:.0f} us"


def _say(what: str, measured: Measured) -> None:
    sys.stderr.write(f"  {what}: {measured['cpu_s']:.2f} s CPU, {measured['wall_s']:.2f} s\n")


def measure(plan: Plan) -> list[Row]:
    """Answer all rows, measured with a throw-away database."""
    with scratch_store(ROOT) as scratch:
        env = {
            **os.environ,
            **scratch.environment(),
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PAGEWARDEN_SWEEP_CONCURRENCY": str(CONCURRENCY),
        }
        subprocess.run(
            (sys.executable, "manage.py", "migrate", "-v", "0"),
            cwd=ROOT,
            env=env,
            check=True,
            stdout=sys.stderr,
        )
        return Bench(plan, env).rows()


def main(argv: Sequence[str]) -> int:
    """Measure, print the table, and answer 0 where no goal is missed."""
    parser = argparse.ArgumentParser(prog="bench fleet_sweep", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--small", type=int, default=500, help="nodes of the small fleet")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    parser.add_argument("--no-install", action="store_true", help="install no peer")
    wish = parser.parse_args(argv)
    plan = Plan(
        nodes=wish.nodes,
        small=wish.small,
        rounds=wish.rounds,
        may_install=not wish.no_install,
    )
    try:
        rows = measure(plan)
    except (BenchFault, ToolError, OSError, subprocess.SubprocessError) as fault:
        sys.stderr.write(f"not measured: {fault}\n")
        return EXIT_TOOL
    sys.stdout.write(f"{table_of(rows)}\n")
    return EXIT_FAIL if any(row.verdict == "MISSED" for row in rows) else EXIT_PASS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
