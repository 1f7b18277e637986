"""What looks at a router tell: each episode once, and silence never as 'stays out'."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleet.staying_out import (
    SETTLED_AFTER,
    UNREAD_AFTER,
    NewsKind,
    Watched,
    looks_like_restart,
    not_seen,
    seen,
)

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
P0, D0 = "http://127.0.0.1:21001", "http://127.0.0.1:21002"
#: One look: seconds since the one before, and what it listed; None where it could not be read.
LOOKS = st.lists(
    st.tuples(
        st.integers(min_value=1, max_value=120),
        st.none() | st.lists(st.sampled_from([P0, D0]), unique=True),
    ),
    max_size=40,
)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_listed_worker_is_told_once_however_often_it_is_seen() -> None:
    state, first = seen(Watched(), listed=[P0], at=NOON)
    assert [(one.kind, one.urls) for one in first] == [(NewsKind.LISTED_AGAIN, (P0,))]
    for second in range(1, 50):
        state, news = seen(state, listed=[P0 + "/"], at=after(second))
        assert news == []
    assert state.listed_since_at == NOON


def test_a_second_worker_is_told_by_itself() -> None:
    state, _ = seen(Watched(), listed=[P0], at=NOON)
    state, news = seen(state, listed=[P0, D0], at=after(5))
    assert [(one.kind, one.urls) for one in news] == [(NewsKind.LISTED_AGAIN, (D0,))]
    assert state.listed == (P0, D0)


def test_gone_is_told_only_once_it_has_stayed_gone() -> None:
    state, _ = seen(Watched(), listed=[P0], at=NOON)
    state, news = seen(state, listed=[], at=after(5))
    assert (state.listed, news) == ((P0,), [])
    state, news = seen(state, listed=[], at=after(5) + SETTLED_AFTER)
    assert [(one.kind, one.urls) for one in news] == [(NewsKind.GONE_AGAIN, (P0,))]
    assert state.listed == ()


def test_silence_does_not_count_as_gone() -> None:
    state, _ = seen(Watched(), listed=[P0], at=NOON)
    state, _ = seen(state, listed=[], at=after(5))
    state, _ = not_seen(state, problem="time-out", at=after(30))
    state, news = seen(state, listed=[], at=after(10) + SETTLED_AFTER)
    assert (state.listed, [one.kind for one in news]) == ((P0,), [])


def test_an_unreadable_router_is_told_once_and_its_return_too() -> None:
    state, news = not_seen(Watched(), problem="refused", at=NOON)
    assert news == []
    state, news = not_seen(state, problem="refused", at=NOON + UNREAD_AFTER)
    assert [one.kind for one in news] == [NewsKind.UNREADABLE]
    for minute in range(2, 30):
        state, news = not_seen(state, problem="refused", at=after(60 * minute))
        assert news == []
    state, news = seen(state, listed=[], at=after(3600))
    assert [one.kind for one in news] == [NewsKind.READABLE]
    assert (state.problem, state.is_problem_told) == ("", False)


def test_a_single_lost_answer_is_no_news() -> None:
    state, _ = not_seen(Watched(), problem="time-out", at=NOON)
    state, news = seen(state, listed=[], at=after(5))
    assert (news, state.problem_since_at) == ([], None)


@given(LOOKS)
def test_news_alternate_whatever_the_looks(looks: list[tuple[int, list[str] | None]]) -> None:
    state, at, is_out, is_readable = Watched(), NOON, {P0: True, D0: True}, True
    for wait, listed in looks:
        at += timedelta(seconds=wait)
        look = not_seen(state, problem="x", at=at) if listed is None else None
        state, news = look or seen(state, listed=listed or [], at=at)
        for one in news:
            if one.kind is NewsKind.LISTED_AGAIN:
                assert all(is_out[url] for url in one.urls)
                is_out.update(dict.fromkeys(one.urls, False))
            if one.kind is NewsKind.GONE_AGAIN:
                assert not any(is_out[url] for url in one.urls)
                is_out.update(dict.fromkeys(one.urls, True))
            if one.kind in {NewsKind.UNREADABLE, NewsKind.READABLE}:
                assert is_readable is (one.kind is NewsKind.UNREADABLE)
                is_readable = not is_readable
        for url in listed or []:
            assert not is_out[url], "a listed worker went untold"
        assert state.is_problem_told is not is_readable


def test_all_of_several_and_nothing_else_looks_like_a_restart() -> None:
    assert looks_like_restart([P0, D0], [D0 + "/", P0])
    assert not looks_like_restart([P0, D0], [P0])
    assert not looks_like_restart([P0, D0], [P0, D0, "http://127.0.0.1:9"])
    assert not looks_like_restart([P0], [P0]), "one worker tells nothing of how it came back"
