"""The tick goes on past a sweep that fails, and only one process runs it."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection

from common import tick


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> dict[str, tick.Sweep]:
    mine: dict[str, tick.Sweep] = {}
    monkeypatch.setattr(tick, "_sweeps", mine)
    return mine


@pytest.mark.django_db
def test_a_failing_sweep_does_not_keep_the_next_from_running(
    sweeps: dict[str, tick.Sweep], caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    def broken() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column")

    sweeps["a"] = broken
    sweeps["b"] = lambda: ran.append("b")
    assert tick.run_tick()
    assert ran == ["b"]
    assert "sweep a failed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_the_tick_is_not_run_while_another_process_runs_it(
    sweeps: dict[str, tick.Sweep],
) -> None:
    ran: list[str] = []
    sweeps["a"] = lambda: ran.append("a")
    parameters = connection.get_connection_params()
    wanted = {
        key: parameters[key]
        for key in ("dbname", "user", "password", "host", "port")
        if parameters.get(key)
    }
    with psycopg.connect(**wanted) as other, other.transaction():
        other.execute("SELECT pg_advisory_xact_lock(%s)", [tick._LOCK])  # noqa: SLF001 - its number
        assert not tick.run_tick()
    assert ran == []
    assert tick.run_tick()
    assert ran == ["a"]
