"""What an entry is made of survives the database unchanged, whatever is put in."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.chain import digest_body
from incidents.entries import Header, iso_moment, plain, plain_body, storable

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.django_db
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.dictionaries(st.text(), _JSON, max_size=4))
def test_a_body_comes_back_from_jsonb_with_its_digest(body: dict[str, object]) -> None:
    stored = plain_body(body)
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [json.dumps(stored)])
        (told,) = cursor.fetchone()
    assert digest_body(json.loads(told)) == digest_body(stored)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes"])
def test_a_value_that_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        plain(value)


def test_what_the_database_cannot_store_is_shown() -> None:
    assert storable("a\x00b\ud800") == "a\ufffdb\ufffd"


def test_moments_are_spelled_in_utc_whatever_their_zone() -> None:
    utc = datetime(2026, 9, 9, 13, 22, tzinfo=UTC)
    edt = utc.astimezone(timezone(timedelta(hours=-4)))
    assert iso_moment(edt) == iso_moment(utc) == "2026-09-09T13:22:00.000000+00:00"


def test_every_fact_of_the_header_stands_in_its_fields() -> None:
    moment = datetime(2026, 9, 9, tzinfo=UTC)
    header = Header(
        incident="INC-2026-0001",
        occurred_at=moment,
        recorded_at=moment,
        source="person",
        actor="rita",
        kind="note",
        supersedes=3,
    )
    assert set(header.fields()) == set(Header.__dataclass_fields__)
    assert header.fields()["supersedes"] == "3"
