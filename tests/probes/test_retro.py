"""Since when the band was open: made-up exports and logs, and the figures of September."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.exits import UsageError
from probes.retro import Openness, Stretch, first_refused, look_back
from probes.retro_records import BadRecord, Samples, read_log
from probes.verbs import judge

#: The published figures: pool of prefill, context, first refused, last admitted by a large decode.
POOL, CONTEXT, LARGE_POOL = 681_280, 1_048_576, 2_040_000
BAND = [681_274, 1_048_569]
LAUNCHED_AT = datetime(2026, 8, 27, tzinfo=UTC)
FIXED_AT = datetime(2026, 9, 9, 14, 52, tzinfo=UTC)
HOUR = timedelta(hours=1)
MATRIX = '{"data": {"resultType": "matrix", "result": [%s]}}'


def series(
    metric: str, instance: str, role: str, figures: dict[datetime, float | str], **labels: str
) -> dict[str, Any]:
    return {
        "metric": {"__name__": metric, "instance": instance, "engine_type": role, **labels},
        "values": [[at.timestamp(), str(figure)] for at, figure in figures.items()],
    }


def hourly(begins_at: datetime, ends_at: datetime, figure: float) -> dict[datetime, float | str]:
    hours = int((ends_at - begins_at) / HOUR)
    return {begins_at + HOUR * index: figure for index in range(hours)}


def export(path: Path, *found: dict[str, Any]) -> str:
    document = {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def looked_back(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = judge.main(["--retro", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def september(path: Path, *, prefill_pool_after: int = LARGE_POOL) -> str:
    ends_at = FIXED_AT + 24 * HOUR
    pools = hourly(LAUNCHED_AT, FIXED_AT, POOL)
    changed_at = max(pools) + HOUR
    pools |= hourly(changed_at, ends_at, prefill_pool_after)
    whole = hourly(LAUNCHED_AT, ends_at, CONTEXT)
    return export(
        path,
        series("sglang:max_total_num_tokens", "p0:30000", "prefill", pools),
        series("sglang:context_len", "p0:30000", "prefill", whole),
        series(
            "sglang:max_total_num_tokens", "d0:30000", "decode", dict.fromkeys(whole, LARGE_POOL)
        ),
        series("sglang:context_len", "d0:30000", "decode", whole),
    )


def test_september_was_open_from_launch_to_the_new_pool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = september(tmp_path / "pools.json")
    code, said = looked_back(capsys, path, "--retro-version", "0.5.19")
    assert (code, said["verdict"]) == (1, "fail")
    (window,) = said["windows"]
    assert window["state"] == "open"
    assert window["band"] == BAND
    assert datetime.fromisoformat(window["from"]) == LAUNCHED_AT
    # The first sample with the new pool ends it: at most one step after the change itself.
    assert FIXED_AT - HOUR <= datetime.fromisoformat(window["to"]) <= FIXED_AT + HOUR
    assert window["is_lower_bound"] is True
    assert said["open_since"] == window["from"]
    assert said["gaps"] == []


def test_without_a_version_it_may_have_been_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = looked_back(capsys, september(tmp_path / "pools.json"))
    assert (code, said["verdict"]) == (2, "inconclusive")
    assert [one["state"] for one in said["windows"]] == ["possible"]
    assert said["open_since"] is None
    assert datetime.fromisoformat(said["possible_since"]) == LAUNCHED_AT


@pytest.mark.parametrize(("version", "code"), [("0.5.20", 0), ("0.5.19", 1), ("0.5.21.dev3", 2)])
def test_the_version_of_prefill_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, code: int
) -> None:
    path = september(tmp_path / "pools.json")
    assert looked_back(capsys, path, "--retro-version", version)[0] == code


def test_a_hole_in_the_samples_is_a_gap_and_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hole_at, goes_on_at = LAUNCHED_AT + 10 * HOUR, LAUNCHED_AT + 20 * HOUR
    whole = hourly(LAUNCHED_AT, LAUNCHED_AT + 30 * HOUR, 4_096)
    holed = {at: figure for at, figure in whole.items() if not hole_at < at < goes_on_at}
    path = export(
        tmp_path / "e.json",
        series("sglang:max_total_num_tokens", "p0", "prefill", holed),
        series("sglang:context_len", "p0", "prefill", holed),
        series("sglang:max_total_num_tokens", "d0", "decode", whole),
        series("sglang:context_len", "d0", "decode", whole),
    )
    code, said = looked_back(capsys, path, "--retro-version", "0.5.19")
    assert (code, said["windows"]) == (2, [])
    (gap,) = said["gaps"]
    assert [datetime.fromisoformat(gap[end]) for end in ("from", "to")] == [hole_at, goes_on_at]
    assert "p0" in gap["reason"]


def test_replaced_instances_leave_a_gap_that_is_told() -> None:
    def side(instance: str, role: str, begins: int, ends: int) -> Stretch:
        return Stretch(
            instance=instance,
            role=role,
            begins_at=LAUNCHED_AT + begins * HOUR,
            ends_at=LAUNCHED_AT + ends * HOUR,
            least_pool=4_096,
            most_pool=4_096,
            context=4_096,
        )

    history = look_back(
        [side("old", "prefill", 0, 5), side("new", "prefill", 8, 12), side("d", "decode", 0, 12)]
    )
    (gap,) = history.of(Openness.UNKNOWN)
    assert (gap.begins_at, gap.ends_at) == (LAUNCHED_AT + 5 * HOUR, LAUNCHED_AT + 8 * HOUR)
    assert {one.prefill for one in history.of(Openness.CLOSED)} == {"old", "new"}


def test_the_smallest_prefill_rank_and_the_largest_decode_rank_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def at(figure: int) -> dict[datetime, float | str]:
        return hourly(LAUNCHED_AT, LAUNCHED_AT + 5 * HOUR, figure)

    pool, context = "sglang:max_total_num_tokens", "sglang:context_len"
    path = export(
        tmp_path / "e.json",
        series(pool, "p0", "prefill", at(4_096), dp_rank="0"),
        series(pool, "p0", "prefill", at(1_024), dp_rank="1"),
        series(context, "p0", "prefill", at(4_096)),
        series(pool, "d0", "decode", at(1_024), dp_rank="0"),
        series(pool, "d0", "decode", at(4_096), dp_rank="1"),
        series(context, "d0", "decode", at(4_096)),
    )
    code, said = looked_back(capsys, path, "--retro-version", "0.5.19")
    assert code == 1
    # The design's own figures for pools of 1,024 and 4,096 at a context of 4,096.
    assert said["windows"][0]["band"] == [1_018, 4_089]


def test_metrics_may_come_in_files_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(Path(september(tmp_path / "all.json")).read_text(encoding="utf-8"))
    apart = [
        export(tmp_path / f"{index}.json", one) for index, one in enumerate(whole["data"]["result"])
    ]
    together = looked_back(capsys, str(tmp_path / "all.json"))
    assert looked_back(capsys, *apart) == together


def log_of(role: str, pool: int, *, at: str = "2026-08-27 09:00:00", until: str) -> str:
    return (
        f"[{at}] server_args=ServerArgs(model_path='m', disaggregation_mode='{role}', tp_size=8)\n"
        f"[{at} TP0] max_total_num_tokens={pool}, chunked_prefill_size=8192, "
        f"max_prefill_tokens=16384, max_running_requests=256, context_len={CONTEXT}, "
        "available_gpu_mem=5.20 GB\n"
        f"[{until} TP0] Decode batch, #running-req: 3, #token: 9000, token usage: 0.12\n"
    )


def test_start_up_logs_tell_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    until = "2026-09-09 14:00:00"
    for name, role, pool in (("p0", "prefill", POOL), ("d0", "decode", LARGE_POOL)):
        text = log_of(role, pool, until=until)
        (tmp_path / f"{name}.log").write_text(text, encoding="utf-8")
    logs = [str(tmp_path / f"{name}.log") for name in ("p0", "d0")]
    code, said = looked_back(capsys, *logs, "--retro-version", "0.5.19")
    assert code == 1
    (window,) = said["windows"]
    assert (window["prefill"], window["decode"], window["band"]) == ("p0", "d0", BAND)
    assert window["from"] == "2026-08-27T09:00:00+00:00"
    assert window["to"] == "2026-09-09T14:00:00+00:00"
    assert any("UTC" in note for note in said["notes"])


def test_a_restart_with_another_pool_begins_a_new_stretch() -> None:
    text = log_of("prefill", POOL, until="2026-09-09 14:40:00") + log_of(
        "prefill", LARGE_POOL, at="2026-09-09 14:52:00", until="2026-09-10 00:00:00"
    )
    first, second = read_log(text, instance="p0").stretches
    assert (first.least_pool, second.least_pool) == (POOL, LARGE_POOL)
    assert first.ends_at == second.begins_at == FIXED_AT


@pytest.mark.parametrize(
    ("pool", "context", "refused"),
    # min(context - 1, pool - 1) - 5, by hand; the first is September's.
    [(POOL, CONTEXT, 681_274), (4_096, 4_096, 4_090), (1_024, 4_096, 1_018), (5, 4_096, None)],
)
def test_the_engines_arithmetic(pool: int, context: int, refused: int | None) -> None:
    assert first_refused(pool, context) == refused


def test_a_missing_context_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = hourly(LAUNCHED_AT, LAUNCHED_AT + 5 * HOUR, 1_024)
    pool = "sglang:max_total_num_tokens"
    path = export(
        tmp_path / "e.json",
        series(pool, "p0", "prefill", at),
        series(pool, "d0", "decode", at),
    )
    code, said = looked_back(capsys, path, "--retro-version", "0.5.19")
    assert code == 2
    (gap,) = said["gaps"]
    assert gap["reason"] == "the context was not recorded, or not as one"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"status": "error"}',
        '{"status": "success", "data": {"resultType": "vector", "result": []}}',
        '{"data": {"resultType": "matrix", "result": [7]}}',
        MATRIX % '{"metric": {"__name__": "sglang:context_len"}, "values": []}',
        MATRIX % '{"metric": {"__name__": "sglang:context_len", "instance": "a"}, "values": [[1]]}',
        "no log at all",
        "[2026-08-27 09:00:00] max_total_num_tokens=5, context_len=5",
        "",
    ],
)
def test_a_record_that_is_none_is_wrong_usage(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        judge.main(["--retro", str(path)])
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_records_of_one_side_prove_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.log").write_text(
        log_of("prefill", POOL, until="2026-09-01 00:00:00"), encoding="utf-8"
    )
    code, said = looked_back(capsys, str(tmp_path / "p.log"))
    assert (code, said["verdict"], said["windows"]) == (2, "inconclusive", [])


def test_a_capture_beside_records_is_wrong_usage(tmp_path: Path) -> None:
    path = september(tmp_path / "e.json")
    with pytest.raises(UsageError, match="records only"):
        judge.main([path, "--retro", path])
    with pytest.raises(UsageError, match="belongs to --retro"):
        judge.main([path, "--retro-version", "0.5.19"])
    with pytest.raises(UsageError, match="FILE"):
        judge.main([])


def test_people_read_windows_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = september(tmp_path / "e.json")
    assert judge.main(["--retro", path, "--retro-version", "0.5.19"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("verdict: fail\n")
    assert "band [681,274, 1,048,569]" in shown
    assert "or earlier" in shown


@given(st.binary(max_size=300))
def test_no_bytes_make_a_record_raise_anything_else(text: bytes) -> None:
    with contextlib.suppress(BadRecord):
        Samples().take(text, name="x")
    with contextlib.suppress(BadRecord):
        read_log(text.decode("utf-8", errors="replace"), instance="x")
