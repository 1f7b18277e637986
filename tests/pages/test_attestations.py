"""The pages on which people vouch for what an engine does not show."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from fleet.models import Attestation
from tests.incidents.builders import make_deployment, make_node
from tests.pages.asking import words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

GIVEN = {"key": "router_queue_s", "value": "5", "reason": "set in the router", "days": "30"}


def add(client: Client, **over: str) -> int:
    response = client.post(reverse("attestation_add", args=["glm"]), {**GIVEN, **over})
    return response.status_code


def test_a_word_is_given_shown_and_withdrawn(by_responder: Client) -> None:
    make_deployment("glm")
    assert add(by_responder) == 302
    at = reverse("attestation_list", args=["glm"])
    words = words_of(by_responder.get(at))
    assert "router_queue_s = 5" in words
    assert "by rita: set in the router" in words
    given = Attestation.objects.get()
    by_responder.post(reverse("attestation_withdraw", args=["glm", given.pk]))
    assert "Nothing: every verdict rests on what the engines show." in words_of(
        by_responder.get(at)
    )


def test_the_deployment_page_leads_there_without_script(by_responder: Client) -> None:
    make_deployment("glm")
    body = by_responder.get(reverse("deployment", args=["glm"])).content.decode()
    assert reverse("attestation_list", args=["glm"]) in body


def test_it_may_be_said_of_one_node_of_this_deployment(by_responder: Client) -> None:
    node = make_node(make_deployment("glm"), "prefill-1")
    other = make_node(make_deployment("other"), "prefill-1")
    assert add(by_responder, node=str(other.pk)) == 200
    assert add(by_responder, node=str(node.pk)) == 302
    assert Attestation.objects.get().node == node


@pytest.mark.parametrize("field", ["key", "value", "reason", "days"])
def test_a_missing_field_stores_nothing(by_responder: Client, field: str) -> None:
    make_deployment("glm")
    assert add(by_responder, **{field: ""}) == 200
    assert not Attestation.objects.exists()


def test_it_needs_a_role(by_outsider: Client) -> None:
    make_deployment("glm")
    assert add(by_outsider) == 403
    assert by_outsider.post(reverse("attestation_withdraw", args=["glm", 1])).status_code == 404
    page = by_outsider.get(reverse("attestation_list", args=["glm"]))
    assert "Vouch for a setting" not in words_of(page)
