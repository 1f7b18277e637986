"""Who sees which incident."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser, User

from incidents.contract import IncidentUnknown
from incidents.models import Incident
from incidents.selectors import incident_find, incident_get, incident_visible_to
from tests.incidents.builders import make_incident

pytestmark = pytest.mark.django_db


def test_a_restricted_incident_is_there_for_its_roles_only(
    responder: User, commander: User, outsider: User
) -> None:
    incident = make_incident()
    for person in (responder, commander):
        assert incident_get(incident.reference, person) == incident
    strangers: tuple[User | AnonymousUser, ...] = (outsider, AnonymousUser())
    for stranger in strangers:
        assert not incident_visible_to(stranger).exists()
        with pytest.raises(IncidentUnknown):
            incident_get(incident.reference, stranger)


def test_an_open_one_is_there_for_who_signed_in(outsider: User) -> None:
    incident = make_incident()
    Incident.objects.update(is_restricted=False)
    assert list(incident_visible_to(outsider)) == [incident]
    assert not incident_visible_to(AnonymousUser()).exists()


def test_somebody_locked_out_sees_nothing(responder: User) -> None:
    make_incident()
    responder.is_active = False
    assert not incident_visible_to(responder).exists()


def test_an_incident_is_found_by_its_name_in_any_case() -> None:
    incident = make_incident()
    assert incident_find(f" {incident.reference.lower()} ") == incident


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "INC-2026",
        "INC-2026-1",
        "INC-2026-99999999999",
        "INC-2026-999999999",
        "1",
        "INC-2026-\u0661\u0661\u0661\u0661",
    ],
)
def test_a_name_that_nothing_has_is_unknown(reference: str) -> None:
    make_incident()
    with pytest.raises(IncidentUnknown):
        incident_find(reference)
