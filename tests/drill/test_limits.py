"""The engine's own arithmetic, from the specification's figures."""

from __future__ import annotations

import pytest
from packaging.version import Version

from drill.guards import guards_of
from drill.limits import clipped_max_new_tokens, context_refusal, length_refusal, max_req_input_len
from drill.settings import NodeSettings, Role, WrongFigure, check


@pytest.mark.parametrize(
    ("context", "pool", "first_refused"),
    [
        (1_048_576, 681_280, 681_274),  # September
        (1_048_576, 2_040_000, 1_048_570),  # decode's pool above the context
        (4096, 1024, 1018),  # the recorded prefill node
        (4096, 4096, 4090),  # the recorded decode node
        (16_384, 10_624, 10_618),  # the scenario september
    ],
)
def test_first_refused_length(context: int, pool: int, first_refused: int) -> None:
    assert max_req_input_len(context, pool) == first_refused
    assert length_refusal(first_refused - 1, first_refused) is None
    assert length_refusal(first_refused, first_refused) is not None


def test_the_context_refuses_before_any_node_does() -> None:
    assert context_refusal(4095, None, 4096) is None
    assert context_refusal(4095, 1, 4096) is None
    assert "longer than the model's context length (4096" in str(context_refusal(4096, 1, 4096))
    assert "total of 4097 tokens: 4095" in str(context_refusal(4095, 2, 4096))


def test_new_tokens_are_clipped_to_what_the_pool_holds() -> None:
    assert clipped_max_new_tokens(8, length=10, max_len=1023, room=500) == 8
    assert clipped_max_new_tokens(8, length=1017, max_len=1023, room=500) == 5
    assert clipped_max_new_tokens(8, length=10, max_len=1023, room=0) == 0
    assert clipped_max_new_tokens(None, length=10, max_len=100, room=500) == 89


@pytest.mark.parametrize(
    ("version", "retires", "refuses"),
    [
        ("0.5.5", False, False),
        ("0.5.19", False, False),
        ("0.5.20", True, False),
        ("0.5.21", True, True),
        ("0.5.23", True, True),
        ("0.6.0", True, True),
        ("0.5.9", False, False),  # by version order, not by text
        ("0.5.20rc1", False, False),
    ],
)
def test_guards_stand_by_version_order(version: str, *, retires: bool, refuses: bool) -> None:
    guards = guards_of(Version(version))
    assert (guards.retires_after_forward, guards.refuses_at_door) == (retires, refuses)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pool": 1000}, "multiple of the page size"),
        ({"pool": 0}, "multiple of the page size"),
        ({"pool": -64}, "multiple of the page size"),
        ({"page_size": 0}, "page size"),
        ({"context": 15}, "below 16"),
        ({"page_size": 1, "pool": 6}, "admits no input"),
        ({"engine_version": "newest"}, "cannot be read"),
        ({"engine_version": "0.4.9"}, "older"),
        ({"waiting_timeout_s": 0.0}, "time-out"),
        ({"reserved_decode_tokens": -1}, "reserved"),
    ],
)
def test_wrong_figures_are_named(change: dict[str, object], said: str) -> None:
    good = NodeSettings(
        name="decode-1",
        role=Role.DECODE,
        engine_version="0.5.19",
        pool=640,
        context=512,
        page_size=64,
        model="m",
    )
    check(good)
    with pytest.raises(WrongFigure, match=said) as caught:
        check(good.with_changes(**change))
    assert "decode-1" in str(caught.value)
