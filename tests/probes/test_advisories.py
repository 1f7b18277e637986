"""Advisories: ranges of versions, three-valued conditions, provenance, and files that are bad."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.exits import UsageError
from common.verdicts import Verdict
from fleet.reading import Attestation, FleetReading, Reading
from probes.advising import gates_with, shelf_in, shelf_of
from probes.advisory import (
    Edge,
    Event,
    Scope,
    Shelf,
    Standing,
    VersionRange,
    group_faults,
)
from probes.advisory_files import BUILT_IN, BadAdvisory, parse_records, read_folder
from probes.advisory_match import is_affected_version, place
from probes.gates import advisories as gate
from probes.judge import judge_fleet
from probes.judgement import Check, Judgement
from probes.verbs import judge
from tests.probes.builders import TAKEN_AT, decode, prefill, unified


def osv(advisory_id: str = "TEST-1", **over: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """Answer an OSV record for sglang, affected before 0.6."""
    return {
        "schema_version": "1.7.0",
        "id": advisory_id,
        "modified": "2026-11-29T00:00:00Z",
        "summary": "a fault",
        "affected": [
            {
                "package": {"ecosystem": "PyPI", "name": "sglang"},
                "ranges": [
                    {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "0.6"}]}
                ],
            }
        ],
    } | over


def judged(*readings: Reading, records: list[dict[str, Any]]) -> Judgement:
    return judge_fleet(
        FleetReading(readings=readings), required=(), gates=gates_with(shelf_of(records))
    )


def check_of(judgement: Judgement, advisory_id: str, node: str = "node-1") -> Check:
    (found,) = [
        one
        for one in judgement.checks
        if (one.check, one.target) == (f"advisories.{advisory_id}", node)
    ]
    return found


def inside(version: str, *events: tuple[str, str], versions: tuple[str, ...] = ()) -> bool | None:
    told = tuple(Event(edge=Edge(edge), version=at) for edge, at in events)
    ranges = (VersionRange(events=told),) if told else ()
    return is_affected_version(version, Scope(ranges=ranges, versions=versions))[0]


@pytest.mark.parametrize(
    ("version", "fixed", "expected"),
    [
        ("0.10.0", "0.8.3", False),
        ("0.8.3", "0.8.3", False),
        ("0.8.3.post1", "0.8.3", False),
        ("0.8.3rc1", "0.8.3", True),
        ("0.8.2.post1", "0.8.3", True),
        ("0.8.3", "0.8.3.post1", True),
        ("0.26.0+cpu", "0.26.0", False),
        ("0.25.9+patched", "0.26.0", True),
        ("v0.26.0", "0.26.0", False),
        ("0.24rc1", "0.24.0rc1", False),
        ("0.24rc1", "0.24.0", True),
        ("0.24.0.dev3", "0.23.0", None),
        ("0.22.1rc1.dev7+gabcdef1", "0.23.0", None),
        ("0.1.25-cu124+0.g184a3ac.dirty", "0.1.20", None),
        ("dev", "0.1.20", None),
        ("", "0.1.20", None),
        ("0.0.0", "0.1.20", None),
        ("1!0.1", "0.1.20", None),
        ("0.5", "not-a-version", None),
    ],
)
def test_one_fix(version: str, fixed: str, expected: bool | None) -> None:
    assert inside(version, ("introduced", "0"), ("fixed", fixed)) is expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.9", False), ("1.0", True), ("1.4", True), ("1.5", False), ("2.0", True), ("2.3", True)],
)
def test_several_stretches_in_any_order(version: str, expected: bool) -> None:
    events = (("introduced", "2.0"), ("fixed", "1.5"), ("introduced", "1.0"))
    assert inside(version, *events) is expected


def test_the_last_affected_is_affected_in_every_build() -> None:
    events = (("introduced", "0"), ("last_affected", "1.2"))
    assert inside("1.2", *events) is True
    assert inside("1.2+cu124", *events) is True
    assert inside("1.2.post1", *events) is False


def test_listed_versions_count_beside_ranges() -> None:
    events = (("introduced", "0"), ("fixed", "1.0"))
    assert inside("1.7", *events, versions=("1.7",)) is True
    assert inside("1.7+cpu", versions=("1.7",)) is True
    assert inside("1.8", versions=("1.7",)) is False


def test_a_fault_of_every_version_holds_for_builds_that_nobody_can_order() -> None:
    assert inside("0.5.dev1", ("introduced", "0")) is True
    assert inside("nightly", ("introduced", "0")) is True


def test_a_build_of_the_fix_itself_is_not_affected() -> None:
    scope = Scope(
        ranges=(VersionRange(events=(Event(edge=Edge.INTRODUCED, version="1"),)),),
    )
    assert is_affected_version("2.0.dev1+g1a2b3c4d", scope, ("1a2b3c4d" + "0" * 32,))[0] is False
    assert is_affected_version("2.0.dev1+g1a2b3c4d", scope, ("1a2b",))[0] is None
    assert is_affected_version("2.0.dev1+g1a2b3c4d", scope, ("ffffffff",))[0] is None


@given(st.text(max_size=40))
def test_no_version_makes_it_raise(version: str) -> None:
    for fixed in ("0.5", version):
        answer = inside(version, ("introduced", "0"), ("fixed", fixed or "0"))
        assert answer in {True, False, None}
    assert bool(place(version)[0]) != bool(place(version)[1])


CONDITIONS = {"python": ">=3.12", "prefix_caching": True}


@pytest.mark.parametrize(
    ("facts", "standing"),
    [
        ({"python": "3.12", "prefix_caching": "true"}, Standing.AFFECTED),
        ({"python_version": "3.12.4", "prefix_caching": "1"}, Standing.AFFECTED),
        ({"python": "3.9", "prefix_caching": "true"}, Standing.NOT_AFFECTED),
        ({"prefix_caching": "true"}, Standing.ASSUMED),
        ({"python": "three", "prefix_caching": "true"}, Standing.ASSUMED),
        ({"prefix_caching": "false"}, Standing.NOT_AFFECTED),
        ({}, Standing.ASSUMED),
    ],
)
def test_conditions_have_three_values(facts: dict[str, str], standing: Standing) -> None:
    record = osv(database_specific={"preconditions": CONDITIONS})
    attested = {key: Attestation(key=key, value=value) for key, value in facts.items()}
    node = unified(version="0.5.19", attested=attested)
    found = check_of(judged(node, records=[record]), "TEST-1")
    assert found.figures["standing"] == standing
    if standing is Standing.ASSUMED:
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "attest" in found.reason
    if standing is Standing.AFFECTED:
        assert found.verdict is Verdict.FAIL
        assert "rests on what is attested" in found.reason


def test_the_engines_word_stands_before_an_attested_one() -> None:
    record = osv(database_specific={"preconditions": {"allow_auto_truncate": True}})
    word = Attestation(key="allow_auto_truncate", value="false")
    node = unified(
        version="0.5.19", allow_auto_truncate=True, attested={"allow_auto_truncate": word}
    )
    assert check_of(judged(node, records=[record]), "TEST-1").verdict is Verdict.FAIL


def test_a_condition_that_is_false_settles_an_unknown_version() -> None:
    record = osv(database_specific={"preconditions": {"allow_auto_truncate": True}})
    node = unified(version="0.5.dev1", allow_auto_truncate=False)
    assert check_of(judged(node, records=[record]), "TEST-1").verdict is Verdict.PASS


def test_an_attestation_settles_what_cannot_be_placed_and_nothing_else() -> None:
    word = {"advisory.test-1": Attestation(key="advisory.test-1", value="fixed", by="ada")}
    unknown = judged(unified(version="0.5.dev1", attested=word), records=[osv()])
    assert check_of(unknown, "TEST-1").verdict is Verdict.PASS
    assert "ada" in check_of(unknown, "TEST-1").reason
    known = judged(unified(version="0.5.19", attested=word), records=[osv()])
    assert check_of(known, "TEST-1").verdict is Verdict.FAIL


def test_another_package_is_not_asked_about() -> None:
    record = osv()
    record["affected"][0]["package"]["name"] = "vllm"
    names = {one.check for one in judged(unified(), records=[record]).checks}
    assert "advisories.TEST-1" not in names


def test_sources_that_differ_are_joined_and_shown() -> None:
    later = osv("OTHER-1", aliases=["TEST-1"], database_specific={"source": "a comment"})
    later["affected"][0]["ranges"][0]["events"] = [{"introduced": "0"}]
    for records in ([osv(), later], [later, osv()]):
        judgement = judged(unified(version="0.7.0"), records=records)
        found = check_of(judgement, records[0]["id"])
        assert found.verdict is Verdict.FAIL
        assert "NOT_AFFECTED" in str(found.figures["conflict"])
        assert "sources differ" in found.reason


@pytest.mark.parametrize("version", ["0.5.0", "0.7.0"])
def test_the_short_form_takes_claims_that_differ(version: str) -> None:
    claims = [{"name": "the advisory", "fixed": "0.5.1"}, {"name": "a comment", "fixed": None}]
    record = {"id": "SHORT-1", "package": "sglang", "sources": claims}
    found = check_of(judged(unified(version=version), records=[record]), "SHORT-1")
    assert found.verdict is Verdict.FAIL
    assert found.figures["sources"] == "the advisory; a comment"
    assert ("conflict" in found.figures) is (version == "0.7.0")


def test_commits_beside_a_package_change_nothing() -> None:
    """As public databases publish a fault: one entry a package, one for the repository."""
    commits = {
        "type": "GIT",
        "repo": "https://example.org/engine",
        "events": [{"introduced": "0"}, {"fixed": "1a2b3c4d5e6f"}],
    }
    record = osv()
    record["affected"][0]["ranges"].insert(0, commits)
    record["affected"].append({"ranges": [commits], "versions": ["v9"]})
    for version, verdict in (
        ("0.5.0", Verdict.FAIL),
        ("0.6.0", Verdict.PASS),
        ("0.7.dev1", Verdict.INCONCLUSIVE),
        ("0.7.dev1+g1a2b3c4d", Verdict.PASS),
    ):
        found = check_of(judged(unified(version=version), records=[record]), "TEST-1")
        assert found.verdict is verdict, version


def test_commits_alone_settle_nothing() -> None:
    commits = {"type": "GIT", "events": [{"introduced": "0"}]}
    record = osv(affected=[{"package": {"name": "sglang"}, "ranges": [commits]}])
    found = check_of(judged(unified(version="0.6.0"), records=[record]), "TEST-1")
    assert found.verdict is Verdict.INCONCLUSIVE


def test_an_unverified_source_neither_passes_nor_fails() -> None:
    record = osv(references=[{"type": "ARTICLE", "url": "https://example.org/post"}])
    judgement = judged(unified(version="0.5.0"), records=[record])
    assert not [one for one in judgement.checks if one.check == "advisories.TEST-1"]
    (told,) = [one for one in judgement.skipped if one.check == "advisories.TEST-1"]
    assert told.reason.startswith("UNVERIFIED_SOURCE")
    assert "https://example.org/post" in told.reason


def test_a_withdrawn_record_is_left_out() -> None:
    assert parse_records(osv(withdrawn="2026-11-01T00:00:00Z"), origin="x") == ()


@pytest.mark.parametrize("version", ["0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"])
def test_what_comes_with_the_product_says_what_the_wheels_hold(version: str) -> None:
    """Held against the table of guards in the facts: 36988 in 0.5.20, 38935 in 0.5.21."""
    both = {"version": version, "transfer_backend": "mori"}
    shown = {"disaggregation_mode": "prefill"}
    judgement = judged(
        prefill(**both, flags=shown),
        decode(**both, flags={"disaggregation_mode": "decode"}, allow_auto_truncate=True),
        records=[],
    )
    number = int(version.rsplit(".", 1)[1])
    expected = {
        ("PAGEWARDEN-2026-0001", "prefill-1"): number < 20,
        ("PAGEWARDEN-2026-0002", "prefill-1"): number < 21,
        ("PAGEWARDEN-2026-0003", "prefill-1"): False,
        ("PAGEWARDEN-2026-0003", "decode-1"): True,
        ("PAGEWARDEN-2026-0004", "decode-1"): number < 22,
    }
    for (advisory_id, node), is_affected in expected.items():
        wanted = Verdict.FAIL if is_affected else Verdict.PASS
        assert check_of(judgement, advisory_id, node).verdict is wanted, (advisory_id, node)


def test_everything_that_comes_with_the_product_can_be_read_and_has_a_source() -> None:
    shelf = read_folder(BUILT_IN)
    assert shelf.bad == ()
    assert shelf.advisories
    for one in shelf.advisories:
        assert one.is_verified
        assert one.summary
        assert one.source != one.origin
        assert one.origin == f"{one.advisory_id.lower()}.json"


def test_sources_of_one_fault_are_found_by_any_name() -> None:
    records = [osv("A", aliases=["B"]), osv("C"), osv("D", aliases=["C", "B"])]
    advisories = tuple(one for record in records for one in parse_records(record, origin="x"))
    (fault,) = group_faults(advisories)
    assert {one.advisory_id for one in fault.sources} == {"A", "C", "D"}


BAD = [
    ("[1]", "no JSON object"),
    ('{"affected": []}', "id is missing"),
    ('{"id": "X"}', "affected is missing"),
    ('{"id": "X", "affected": [{"ranges": [{"type": "WISH", "events": []}]}]}', "type"),
    ('{"id": "X", "affected": [{"ranges": [{"type": "GIT", "events": []}]}]}', "introduced"),
    (
        '{"id": "X", "affected": [{"ranges": [{"type": "SEMVER", "events": [{"fixed": 7}]}]}]}',
        "no version in text",
    ),
    ('{"id": "X", "fixed": "1", "preconditions": {"a": {}}}', "preconditions.a"),
    ("{", "no JSON"),
]


@pytest.mark.parametrize(("text", "what"), BAD)
def test_a_bad_file_of_the_operator_is_told_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, what: str
) -> None:
    (tmp_path / "bad.json").write_text(text, encoding="utf-8")
    (tmp_path / "good.json").write_text(json.dumps(osv()), encoding="utf-8")
    monkeypatch.setenv("PAGEWARDEN_ADVISORIES", str(tmp_path))
    judgement = judge_fleet(FleetReading(readings=(unified(version="0.5.0"),)))
    assert check_of(judgement, "TEST-1").verdict is Verdict.FAIL
    (told,) = [one for one in judgement.checks if one.check == gate.KEY]
    assert (told.target, told.verdict) == ("bad.json", Verdict.INCONCLUSIVE)
    assert what in told.reason
    with pytest.raises(UsageError, match=r"bad\.json"):
        shelf_in(str(tmp_path))


def test_a_missing_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEWARDEN_ADVISORIES", str(tmp_path / "none"))
    judgement = judge_fleet(FleetReading(readings=(unified(),)))
    (told,) = [one for one in judgement.checks if one.check == gate.KEY]
    assert told.verdict is Verdict.INCONCLUSIVE


def test_an_attested_version_is_told_as_one() -> None:
    word = {"version": Attestation(key="version", value="0.5.19")}
    found = check_of(judged(unified(version=None, attested=word), records=[osv()]), "TEST-1")
    assert found.verdict is Verdict.FAIL
    assert "rests on what is attested: version" in found.reason


def test_an_expired_word_counts_as_none() -> None:
    record = osv(database_specific={"preconditions": {"python": ">=3.12"}})
    word = Attestation(key="python", value="3.11", until=TAKEN_AT)
    node = unified(version="0.5.19", attested={"python": word})
    found = check_of(judged(node, records=[record]), "TEST-1")
    assert found.figures["standing"] == Standing.ASSUMED


def test_a_silent_node_is_told_once() -> None:
    node = unified(problem="node-1 did not answer", version=None)
    told = [one for one in judged(node, records=[osv()]).checks if one.check.startswith(gate.KEY)]
    assert [(one.check, one.target, one.verdict) for one in told] == [
        ("advisories", "node-1", Verdict.INCONCLUSIVE)
    ]


ENGINE = {"version": "0.5.19", "max_req_input_len": 1_018, "disaggregation_mode": "null"}


def capture_of(path: Path, **more: Any) -> str:  # noqa: ANN401 - any key of a capture
    node = {
        "name": "n",
        "engine": "sglang",
        "role": "unified",
        "responses": {"GET /server_info": {"status": 200, "json": ENGINE}},
    }
    path.write_text(json.dumps({"nodes": [node], **more}), encoding="utf-8")
    return str(path)


def test_a_capture_and_a_folder_bring_advisories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "own.json").write_text(json.dumps(osv("OWN-1")), encoding="utf-8")
    path = capture_of(tmp_path / "c.json", advisories=[{"id": "SHORT-1", "fixed": "0.5.19"}])
    judge.main([path, "--advisories", str(folder), "--json"])
    checks = {one["check"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["advisories.OWN-1"]["verdict"] == "fail"
    assert checks["advisories.SHORT-1"]["verdict"] == "pass"
    assert checks["advisories.OWN-1"]["required"] is False


@pytest.mark.parametrize("records", [7, [7], [{}], [{"id": "X"}], {"id": "X", "fixed": "1"}])
def test_a_bad_advisory_in_a_capture_is_wrong_usage(tmp_path: Path, records: object) -> None:
    with pytest.raises(UsageError, match="advisories"):
        judge.main([capture_of(tmp_path / "c.json", advisories=records)])


FIELDS = (
    *("id", "affected", "ranges", "events", "type", "introduced", "fixed", "package"),
    *("versions", "references", "database_specific", "preconditions", "sources"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_record_makes_it_raise_anything_else(document: object) -> None:
    with contextlib.suppress(BadAdvisory):
        for one in parse_records(document, origin="x"):
            shelf = Shelf(advisories=(one,))
            list(gate.Advisories(shelf).judge(FleetReading(readings=(unified(),))))
