from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.pages.asking import words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]


def test_a_stranger_is_sent_to_the_sign_in_page_and_back(responder: User) -> None:
    client = Client()
    response = client.get("/audits/")
    assert response.status_code == 302
    assert response["Location"] == "/sign-in/?next=/audits/"
    given = {"username": responder.username, "password": "rita-password-1", "next": "/audits/"}
    assert client.post("/sign-in/", given)["Location"] == "/audits/"


def test_a_wrong_password_is_refused_in_words(responder: User) -> None:
    response = Client().post("/sign-in/", {"username": responder.username, "password": "wrong"})
    assert response.status_code == 200
    assert "do not go together" in words_of(response)


def test_signing_out_takes_a_post_and_ends_the_session(by_responder: Client) -> None:
    assert by_responder.get("/sign-out/").status_code == 405
    assert by_responder.post("/sign-out/")["Location"] == "/sign-in/"
    assert by_responder.get("/").status_code == 302


def test_no_other_page_is_open() -> None:
    client = Client()
    for name in ("overview", "sidebar", "deployment_list", "audit_list", "incident_list"):
        assert client.get(reverse(name)).status_code == 302, name


def test_an_unknown_address_is_answered_in_words(by_responder: Client) -> None:
    response = by_responder.get("/nothing-here/")
    assert response.status_code == 404
    assert "There is nothing here" in words_of(response)


def test_a_form_without_its_token_is_refused_in_words(responder: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(responder)
    response = client.post(reverse("sign_out"))
    assert response.status_code == 403
    assert "Nothing was done" in words_of(response)
