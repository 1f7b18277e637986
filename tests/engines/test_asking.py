"""Every form of asking against the engines themselves: what is sent is taken, and read rightly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.conftest import Keeper
from tests.engines.lane.llamacpp import llamacpp_server
from tests.engines.lane.servers import Lane
from tests.engines.lane.vllm import vllm_server

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]
ROOT = Path(__file__).resolve().parents[2]


def ask_in_every_form(lane: Lane, engine: str, *, over: int) -> None:
    words = [sys.executable, "-m", "tests.engines.forms", engine, lane.urls[engine], str(over)]
    done = subprocess.run(  # noqa: S603 - our own program
        lane.room.on_its_network(words), check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_llamacpp_is_asked_in_every_form_that_it_takes(keeper: Keeper, tmp_path: Path) -> None:
    keeper.end()
    server = llamacpp_server(keeper.root, context=1024, slots=1, is_unified=False, logs=tmp_path)
    with server as lane:
        ask_in_every_form(lane, "llamacpp", over=1500)


def test_vllm_is_asked_in_every_form_that_it_takes(keeper: Keeper, tmp_path: Path) -> None:
    keeper.end()
    server = vllm_server(keeper.root, context="2048", longest=2048, blocks=40, logs=tmp_path)
    with server as lane:
        ask_in_every_form(lane, "vllm", over=2500)
