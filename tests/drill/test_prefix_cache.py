"""The prefix cache keeps what is in use, lets go of ends first, and finds by salt and content."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drill.pool import PagePool
from drill.prefix_cache import PrefixCache, keys_of
from drill.world import Origins

tokens = st.lists(st.integers(0, 511), max_size=40)


def filled(count: int) -> tuple[PagePool, PrefixCache, list[bytes]]:
    pool = PagePool(capacity=64, page_size=4)
    cache = PrefixCache(pool)
    keys = keys_of(range(4 * count), 4, None)
    cache.insert(list(zip(keys, pool.take(count) or [], strict=True)))
    return pool, cache, keys


def test_a_prefix_is_found_up_to_its_first_unknown_page() -> None:
    _, cache, keys = filled(4)
    other = keys_of([*range(8), 99, *range(9, 16)], 4, None)
    assert cache.match(keys) == [1, 2, 3, 4]
    assert cache.match(other) == [1, 2]


def test_the_end_of_a_prefix_goes_before_its_beginning() -> None:
    pool, cache, keys = filled(4)
    assert cache.evict(2) == [4, 3]
    assert cache.match(keys) == [1, 2]
    assert pool.cached_pages == 2


def test_what_was_used_last_goes_last() -> None:
    pool, cache, keys = filled(2)
    others = keys_of([7] * 8, 4, None)
    cache.insert(list(zip(others, pool.take(2) or [], strict=True)))
    cache.use(keys, [1, 2])
    cache.leave([1, 2])
    assert [cache.evict(2), cache.evict(2)] == [[4, 3], [2, 1]]


def test_a_page_in_use_stays() -> None:
    pool, cache, keys = filled(4)
    cache.use(keys[3:], [4])
    cache.use(keys[3:], [4])
    assert (cache.evictable, pool.cached_pages) == (3, 3)
    cache.leave([4])
    assert cache.evict(4) == [3, 2, 1]
    cache.leave([4])
    assert cache.evict(4) == [4]


def test_a_known_key_takes_no_second_page() -> None:
    _, cache, keys = filled(2)
    assert cache.insert([(keys[0], 9), (b"new", 10)]) == [(b"new", 10)]
    assert cache.match(keys[:1]) == [1]


@given(one=tokens, two=tokens, size=st.integers(1, 8), salts=st.tuples(*[st.text(max_size=3)] * 2))
def test_keys_are_equal_where_salt_and_prefix_are(
    one: list[int], two: list[int], size: int, salts: tuple[str, str]
) -> None:
    first, second = keys_of(one, size, salts[0]), keys_of(two, size, salts[1])
    assert len(first) == len(one) // size
    for number, (left, right) in enumerate(zip(first, second, strict=False)):
        end = (number + 1) * size
        assert (left == right) is (salts[0] == salts[1] and one[:end] == two[:end])


def test_both_legs_of_a_request_have_one_serial() -> None:
    origins = Origins()
    first, second = origins.serial_of(7, "prefill"), origins.serial_of(7, "decode")
    assert first == second
    assert origins.serial_of(7, "decode") != first
    assert len({origins.serial_of(None, "decode") for _ in range(3)}) == 3


def test_a_leg_that_comes_twice_is_another_request() -> None:
    origins = Origins()
    assert origins.serial_of(7, "decode") != origins.serial_of(7, "decode")
