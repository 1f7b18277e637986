from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes.charts import ROW_HEIGHT_PX, PoolBar, pool_figure

#: The operator's figures of September: pool, context, context times 1.25.
SEPTEMBER = PoolBar(
    label="prefill-1", role="prefill", pool=681_280, context=1_048_576, wanted=1_310_720
)


def test_what_is_promised_but_not_held_is_drawn_behind_what_is_held() -> None:
    held, missing = pool_figure([SEPTEMBER])["data"]
    assert held["x"] == [681_280]
    assert missing["x"] == [1_048_576 - 681_280]
    assert missing["marker"]["pattern"]["shape"]


def test_the_context_is_a_line_and_the_headroom_a_dashed_one() -> None:
    context, wanted = pool_figure([SEPTEMBER])["layout"]["shapes"]
    assert (context["x0"], context["line"]["dash"]) == (1_048_576, "solid")
    assert (wanted["x0"], wanted["line"]["dash"]) == (1_310_720, "dot")


def test_a_covering_pool_has_nothing_hatched() -> None:
    bar = PoolBar(label="d", pool=20_480, context=16_384, wanted=20_480)
    assert not bar.is_short
    assert not bar.is_wanting
    assert pool_figure([bar])["data"][1]["x"] == [0]


def test_a_pool_between_context_and_headroom_wants() -> None:
    bar = PoolBar(label="d", pool=16_384, context=16_384, wanted=20_480)
    assert bar.is_wanting
    assert not bar.is_short


def test_an_unknown_pool_is_neither_drawn_nor_judged() -> None:
    bar = PoolBar(label="d", pool=None, context=16_384, wanted=20_480)
    assert (bar.short_by, bar.ratio, bar.is_wanting) == (0, None, False)
    assert pool_figure([bar])["data"][0]["x"] == [0]


def test_an_empty_figure_can_be_drawn() -> None:
    assert pool_figure([])["layout"]["height"] == 0


@given(
    st.lists(
        st.builds(
            PoolBar,
            label=st.just("n"),
            pool=st.none() | st.integers(0, 10_000_000),
            context=st.none() | st.integers(1, 2_000_000),
            wanted=st.none() | st.integers(1, 3_000_000),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_every_bar_and_line_lies_within_the_drawing(bars: list[PoolBar]) -> None:
    drawing = pool_figure(bars)
    low, high = drawing["layout"]["xaxis"]["range"]
    ends = [held + gap for held, gap in zip(*(one["x"] for one in drawing["data"]), strict=True)]
    lines = [shape["x0"] for shape in drawing["layout"]["shapes"]]
    assert low == 0
    assert all(0 <= end <= high for end in [*ends, *lines])
    assert drawing["layout"]["height"] == ROW_HEIGHT_PX * len(bars)
