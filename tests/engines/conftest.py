"""Lanes of real engines for the tests: one runs at a time, and the next test may take it over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.capture import CaptureManager

from tests.engines.lane.folders import engines_home
from tests.engines.lane.servers import Lane
from tests.engines.lane.sglang import Figures, sglang_servers

SglangLane = Callable[..., Lane]


@dataclass(slots=True, kw_only=True)
class Keeper:
    """Keeps the last lane running, for two at once are more than a small machine holds."""

    root: Path
    logs: Path
    capture: CaptureManager = field(repr=False)
    figures: Figures | None = None
    lane: Lane | None = None
    stack: ExitStack = field(default_factory=ExitStack)

    def lane_with(self, figures: Figures) -> Lane:
        """Answer a lane with these figures. Raises CannotInstall, NoRoom, NotUp.

        A machine that cannot run engines fails these tests: whoever asked for them wants an answer.
        """
        if self.lane is None or figures != self.figures:
            self.end()
            name = f"{figures.version}-{figures.prefill_pool}-{figures.decode_pool}"
            servers = sglang_servers(self.root, figures, logs=self.logs / name)
            # A first run installs for minutes, and says so where somebody can see it.
            with self.capture.global_and_fixture_disabled():
                self.lane = self.stack.enter_context(servers)
            self.figures = figures
        return self.lane

    def end(self) -> None:
        """Stop what runs."""
        self.lane = None
        self.stack.close()


@pytest.fixture(scope="session")
def engines_root() -> Path:
    """Answer where engines are installed; outside the checkout."""
    return engines_home(os.environ)


@pytest.fixture(scope="module")
def keeper(
    engines_root: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Keeper]:
    """Answer who keeps the lanes of one module; no lane runs beside tests of another."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert isinstance(capture, CaptureManager)
    logs = tmp_path_factory.mktemp("engines")
    keeper = Keeper(root=engines_root, logs=logs, capture=capture)
    yield keeper
    keeper.end()


@pytest.fixture
def sglang_lane(keeper: Keeper) -> SglangLane:
    """Answer real SGLang with a router; lanes of the same figures are one lane."""

    def lane(
        version: str, prefill_pool: int, decode_pool: int, context: int = 4096, flags: str = ""
    ) -> Lane:
        return keeper.lane_with(
            Figures(
                version=version,
                prefill_pool=prefill_pool,
                decode_pool=decode_pool,
                context=context,
                flags=tuple(flags.split()),
            )
        )

    return lane


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, ...]:
    """Answer the options that name both tenants' keys."""
    words: list[str] = []
    for letter in "ab":
        file = tmp_path / f"tenant-{letter}.key"
        file.write_text(f"made-up-key-of-{letter}", encoding="ascii")
        words += [f"--tenant-{letter}-key-file", str(file)]
    return tuple(words)
