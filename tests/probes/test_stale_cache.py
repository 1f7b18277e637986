"""When pages of before may be read as pages of now."""

from __future__ import annotations

from typing import Any

import pytest

from common.verdicts import Verdict
from fleet.reading import Attestation, Reading
from probes.judgement import Check
from probes.stale_cache import MEANING, judge_stale_cache
from tests.probes.builders import unified

FILE = {"hicache_storage_backend": "file", "spill_paths": "/nvme/kv"}
LAYOUT = {**unified().layout, "dtype": "bfloat16"}


def changed(name: str, flags: dict[str, Any] | None = None, **over: Any) -> Reading:  # noqa: ANN401
    layout = {**LAYOUT, name: "other"}
    return unified(layout=layout, flags=FILE if flags is None else flags, **over)


def of_before(flags: dict[str, Any] | None = None) -> Reading:
    return unified(layout=LAYOUT, flags=FILE if flags is None else flags)


def judged(before: Reading, after: Reading) -> Check:
    check = judge_stale_cache(before, after)
    assert check is not None
    assert check.required
    return check


@pytest.mark.parametrize("name", MEANING)
def test_what_a_page_means_changed_over_the_same_storage(name: str) -> None:
    check = judged(of_before(), changed(name))
    assert check.verdict is Verdict.FAIL
    assert name in check.figures
    assert (check.figures["storage"], check.figures["path"]) == ("file", "/nvme/kv")


def test_nothing_is_said_where_pages_mean_the_same() -> None:
    assert judge_stale_cache(of_before(), of_before()) is None
    assert judge_stale_cache(of_before(), unified(layout=LAYOUT, flags=FILE, pool=9)) is None


def test_nothing_is_said_where_no_storage_is_kept() -> None:
    none = {"hicache_storage_backend": "null"}
    assert judge_stale_cache(of_before(none), changed("weights", none)) is None
    assert judge_stale_cache(of_before(none), changed("weights")) is None
    assert judge_stale_cache(of_before(), changed("weights", none)) is None


def test_a_storage_that_is_not_shown_is_inconclusive() -> None:
    assert judged(of_before({}), changed("weights", {})).verdict is Verdict.INCONCLUSIVE


def test_another_path_is_enough_and_half_of_another_is_not() -> None:
    moved = changed("weights", {**FILE, "spill_paths": "/nvme/kv2"})
    assert judged(of_before(), moved).verdict is Verdict.PASS
    both = changed("weights", {**FILE, "spill_paths": "/nvme/kv2, /nvme/kv"})
    assert judged(of_before(), both).verdict is Verdict.FAIL
    hidden = changed("weights", {"hicache_storage_backend": "file"})
    assert judged(of_before(), hidden).verdict is Verdict.FAIL


def test_a_person_may_say_that_it_was_cleared_and_is_named() -> None:
    word = Attestation(key="storage_cleared", value="true", by="ann", reason="rm -r")
    check = judged(of_before(), changed("weights", attested={word.key: word}))
    assert check.verdict is Verdict.PASS
    assert "the word of ann (rm -r)" in check.reason
    assert check.figures["attested"] == "storage_cleared=true by ann"
