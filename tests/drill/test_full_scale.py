"""The drill with the incident's figures: it starts soon, answers soon and stays small."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from array import array
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from drill.books import Books, Trace
from drill.options import plan_of, read_options
from drill.settings import Role

ROOT = Path(__file__).parents[2]
#: Source: the operator's report, and its page size's first refused length (pool - 6).
CONTEXT, PREFILL_POOL, FIRST_REFUSED, PAGE = 1_048_576, 681_280, 681_274, 64
LONGEST_SCHEDULED = PREFILL_POOL - 1 - PAGE - 1
START_S, ANSWER_S, MEMORY_MIB = 10, 30, 2048
MARKER = "AM9K-31"


def test_the_figures_are_the_incidents() -> None:
    pools = {}
    for scenario in ("september", "healthy", "equal-pools"):
        plan = plan_of(read_options(["--full-scale", "--scenario", scenario]))
        assert {(node.context, node.page_size) for node in plan.nodes} == {(CONTEXT, PAGE)}
        pools[scenario] = {node.role: node.pool for node in plan.nodes}
        assert all(pool % PAGE == 0 for pool in pools[scenario].values())
    assert pools["september"][Role.PREFILL] == PREFILL_POOL
    assert pools["september"][Role.DECODE] > CONTEXT
    assert set(pools["equal-pools"].values()) == {PREFILL_POOL}
    assert min(pools["healthy"].values()) > CONTEXT


def test_a_figure_of_the_command_line_wins_over_the_scale() -> None:
    plan = plan_of(read_options(["--full-scale", "--prefill-pool", "640000"]))
    assert plan.nodes[0].pool == 640_000
    assert plan.nodes[1].context == CONTEXT


def test_long_traces_push_old_ones_out() -> None:
    books = Books()
    for serial in range(6):
        slots = array("q", [0]) * CONTEXT
        books.note(
            Trace(rid="r", serial=serial, transferred=1, slots=slots, writers=slots, rids={})
        )
    assert [trace.serial for trace in books.traces] == [3, 4, 5]


@pytest.fixture
async def process() -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "drill", "--full-scale", "--base-port", "0"),
        cwd=ROOT,
        env=os.environ,
        stdout=asyncio.subprocess.PIPE,
    )
    yield running
    running.terminate()
    await running.wait()


def _peak_mib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) // 1024


def _prompt(code: str, length: int) -> str:
    ask = f" Repeat this code exactly: {code}"
    filler = "the quick brown fox jumps over the lazy dog. " * (length // 45 + 1)
    return filler[: length - len(ask)] + ask


async def test_a_full_request_in_and_one_over_the_limit_are_answered_soon(
    process: asyncio.subprocess.Process,
) -> None:
    assert process.stdout is not None
    said = json.loads(await asyncio.wait_for(process.stdout.readline(), START_S))
    async with aiohttp.ClientSession() as session:

        async def ask(code: str, length: int, tenant: int) -> dict[str, Any]:
            body = {"text": _prompt(code, length), "sampling_params": {"max_new_tokens": 16}}
            headers = {"Authorization": f"Bearer {said['tenants'][tenant]['api_key']}"}
            started = time.monotonic()
            url = said["router"] + "/generate"
            async with session.post(url, json=body, headers=headers) as reply:
                assert reply.status == 200
                answer = dict(await reply.json())
            assert time.monotonic() - started < ANSWER_S
            assert answer["meta_info"]["prompt_tokens"] == length
            return answer

        assert (await ask(MARKER, LONGEST_SCHEDULED, 0))["text"].startswith(MARKER)
        # The next pages are taken behind the first ones, so two rounds lie under the leak.
        assert (await ask(MARKER, LONGEST_SCHEDULED, 0))["text"].startswith(MARKER)
        leak = await ask("BN4W-77", FIRST_REFUSED, 1)
        assert MARKER in leak["text"]
        assert "BN4W" not in leak["text"]
    assert _peak_mib(process.pid) < MEMORY_MIB
