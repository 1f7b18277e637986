"""Rules of reading and reducing metrics text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.engines import prometheus
from fleet.engines.prometheus import parse_metrics, reduce_metrics, total_by_name

TEXT = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",tp_rank="0",customer="acme"} 2.0
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 2.0
sglang:num_running_reqs{dp_rank="1",tp_rank="0"} 5.0
sglang:time_to_first_token_seconds_bucket{le="0.1",dp_rank="2"} 9
sglang:num_requests_total{model_name="a b\\"c"} 1e+3
sglang:num_running_reqs{dp_rank="3"
"""
NAMES = frozenset({"sglang:num_running_reqs", "sglang:num_requests_total"})


def test_a_figure_is_summed_over_ranks_and_not_over_their_peers() -> None:
    samples = parse_metrics(TEXT)
    assert total_by_name(samples, "sglang:num_running_reqs") == 7
    assert total_by_name(samples, "sglang:num_requests_total") == 1000
    assert total_by_name(samples, "sglang:nothing") is None


def test_only_named_series_and_rank_labels_are_kept_and_every_rank_stays_visible() -> None:
    reduced = reduce_metrics(TEXT, names=NAMES)
    assert "acme" not in reduced
    assert "model_name" not in reduced
    samples = parse_metrics(reduced)
    assert {sample.rank for sample in samples} == {0, 1, 2}
    assert {one.name for one in samples if one.rank == 2} == {
        "sglang:time_to_first_token_seconds_bucket"
    }


@given(st.text(max_size=200))
def test_any_text_is_reduced_to_what_reducing_does_not_change(text: str) -> None:
    for one in (text, f"sglang:num_running_reqs{text}", f'a{{dp_rank="1",{text}'):
        reduced = reduce_metrics(one, names=NAMES)
        assert reduce_metrics(reduced, names=NAMES) == reduced
        parse_metrics(one)


SERIES = st.sampled_from(
    (
        "sglang:num_running_reqs",
        'sglang:num_used_tokens{dp_rank="1",tp_rank="0",model_name="a b"}',
        'x{dp_rank="1",}',
        'x{dp_rank="1" , engine_type="decode"}',
        "x{}",
        "x{dp_rank=1}",
        'x{dp_rank="1}',
        'x{dp_rank="1",dp_rank="2"}',
        'x{a="b#c"}',
        'x{a="\\""}',
        "9x",
        'x_total{a="}"}',
        '{"x", dp_rank="1"}',
    )
) | st.text(alphabet='x{}dp_rank="1,# \\', max_size=20)
VALUE = (
    st.floats().map(repr)
    | st.integers(-(10**25), 10**25).map(str)
    | st.sampled_from(
        ("NaN", "+Inf", "1 2", "1e5", "1.", ".5", "0x1", "1_0", "", "1e400", "1E5", "1 # {} 2")
    )
)


@settings(max_examples=600)
@given(series=SERIES, value=VALUE, gap=st.sampled_from((" ", "  ", "\t")))
def test_a_usual_line_is_read_as_the_library_reads_it(series: str, value: str, gap: str) -> None:
    line = f"{series}{gap}{value}"
    for labels in (prometheus.KEPT_LABELS, ()):
        whole = prometheus._parse_any(line, labels) if line and line[0] != "#" else []  # noqa: SLF001
        for _ in range(2):
            assert repr(prometheus._parse_line(line, labels)) == repr(whole)  # noqa: SLF001
