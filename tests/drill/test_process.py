"""The drill as a process: first line, signals, taken ports, wrong figures."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from drill.options import TENANT_KEYS_VARIABLE, plan_of, read_options
from drill.scenarios import SCENARIOS
from drill.settings import WrongFigure

ROOT = Path(__file__).parents[2]
Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    running: list[asyncio.subprocess.Process] = []

    async def run(*options: str, **environ: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "drill", *options),
            cwd=ROOT,
            env=os.environ | environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _first_line(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    return dict(json.loads(await process.stdout.readline()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_first_line_then_all_ports_then_a_clean_end(
    start: Start, number: signal.Signals
) -> None:
    keys = {TENANT_KEYS_VARIABLE: json.dumps(["first", "second"])}
    process = await start("--base-port", "0", "--decodes", "2", **keys)
    said = await _first_line(process)
    assert [node["name"] for node in said["nodes"]] == ["prefill-1", "decode-1", "decode-2"]
    assert [tenant["api_key"] for tenant in said["tenants"]] == ["first", "second"]
    assert (said["context"], said["page_size"]) == (16_384, 64)
    assert type(said["nodes"][0]["bootstrap_port"]) is int
    assert said["nodes"][1]["bootstrap_port"] is None
    urls = [said["router"] + "/health", said["control"] + "/"]
    urls += [node["url"] + "/health" for node in said["nodes"]]
    async with aiohttp.ClientSession() as session:
        for url in urls:
            async with session.get(url) as reply:
                assert reply.status == 200
    process.send_signal(number)
    assert await asyncio.wait_for(process.wait(), 2) == 0
    assert process.stderr is not None
    assert await process.stderr.read() == b""


async def test_a_taken_port_is_one_line_and_exit_3(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = await start("--base-port", str(port))
        out, error = await process.communicate()
    assert process.returncode == 3
    assert out == b""
    assert error.count(b"\n") == 1
    assert str(port).encode() in error


@pytest.mark.parametrize(
    "options",
    [
        ["--prefill-pool", "10625"],
        ["--context", "15"],
        ["--page-size", "0"],
        ["--engine-version", "newest"],
        ["--scenario", "october"],
        ["--prefill-pool", "many"],
        ["--base-port", "65534"],
        ["--prefills", "0"],
        ["--unknown"],
    ],
)
async def test_wrong_figures_are_one_line_and_exit_4(start: Start, options: list[str]) -> None:
    process = await start(*options)
    out, error = await process.communicate()
    assert (process.returncode, out) == (4, b"")
    assert error.count(b"\n") == 1


async def test_it_dies_with_its_parent() -> None:
    code = (
        "import subprocess, sys\n"
        "drill = subprocess.Popen([sys.executable, '-m', 'drill', '--base-port', '0',"
        " '--die-with-parent'], stdout=subprocess.PIPE, text=True)\n"
        "print(drill.stdout.readline(), end='', flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    said = await _first_line(parent)
    parent.kill()
    await parent.communicate()
    async with asyncio.timeout(5), aiohttp.ClientSession() as session:
        while True:
            try:
                await session.get(said["router"] + "/health")
            except aiohttp.ClientConnectionError:
                return


def test_explicit_figures_override_the_scenarios() -> None:
    plan = plan_of(read_options(["--scenario", "healthy", "--prefill-pool", "128"]), {})
    assert [node.pool for node in plan.nodes] == [128, SCENARIOS["healthy"].decode_pool]
    assert plan.nodes[0].engine_version == "0.5.22"


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("september", ("0.5.19", 10_624, 20_480)),
        ("healthy", ("0.5.22", 20_480, 20_480)),
        ("equal-pools", ("0.5.19", 10_624, 10_624)),
    ],
)
def test_scenarios_have_the_figures_of_the_issue(name: str, figures: tuple[str, int, int]) -> None:
    one = SCENARIOS[name]
    assert (one.engine_version, one.prefill_pool, one.decode_pool) == figures
    assert (one.context, one.page_size) == (16_384, 64)


def test_keys_are_new_each_time_unless_given(tmp_path: Path) -> None:
    options = read_options([])
    first, second = (plan_of(options, {}).tenants for _ in range(2))
    assert {one.api_key for one in first}.isdisjoint(one.api_key for one in second)
    path = tmp_path / "keys"
    path.write_text('["k1", "k2"]', encoding="utf-8")
    given = plan_of(read_options(["--tenant-key-file", str(path)]), {}).tenants
    assert [one.api_key for one in given] == ["k1", "k2"]
    assert "k1" not in repr(given)


@pytest.mark.parametrize("text", ["", "[]", '["one"]', '{"a": "b"}', '["a", ""]'])
def test_unusable_key_lists_are_refused(text: str) -> None:
    with pytest.raises(WrongFigure, match="JSON list"):
        plan_of(read_options([]), {TENANT_KEYS_VARIABLE: text})


@pytest.mark.parametrize(
    ("arguments", "reserve"),
    [
        (["--scenario", "september"], 512),
        (["--scenario", "equal-pools"], 512),
        # 990 tokens were answered at a pool of 1,024, 1,010 were not (recorded, reserve 16).
        (["--prefill-pool", "1024", "--decode-pool", "1024", "--page-size", "1"], 16),
        (["--decode-pool", "1024", "--page-size", "1", "--reserved-decode-tokens", "512"], 512),
    ],
)
def test_a_small_pool_keeps_a_small_reserve(arguments: list[str], reserve: int) -> None:
    plan = plan_of(read_options(arguments))
    assert {node.reserved_decode_tokens for node in plan.nodes} == {reserve}
