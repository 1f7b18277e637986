"""Pages about API tokens: shown once, listed without their text, over when they are."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from common.clock import now
from common.models import AuditTrail
from probes.models import ApiToken
from probes.tokens import TokenUnknown, token_add, token_use
from tests.pages.asking import words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

LIST, ADD = "/api-tokens/", "/api-tokens/add/"


def status_of(text: str) -> int:
    """Ask the door itself; a token that opens it gets as far as an empty body."""
    shown = {"Authorization": f"Bearer {text}"}
    return (
        Client().post("/api/gate", b"", content_type="application/json", headers=shown).status_code
    )


def issued(client: Client, **over: str) -> str:
    """Issue a token by the page and answer its text, as the page shows it."""
    response = client.post(ADD, {"name": "ci", "days": "90", **over})
    assert response.context is not None
    return str(response.context["text"])


def test_a_token_is_shown_in_the_answer_to_the_post_and_never_again(by_responder: Client) -> None:
    response = by_responder.post(ADD, {"name": "ci", "days": "90"})
    text = ApiTokenText(response.content.decode()).found
    assert status_of(text) == 422
    assert "no-store" in response["Cache-Control"]
    for address in (LIST, ADD):
        assert text not in by_responder.get(address).content.decode()
    again = by_responder.post(ADD, {"name": "ci", "days": "90"})
    assert "a token called ci was made already" in words_of(again)
    assert text not in again.content.decode()
    assert ApiToken.objects.count() == 1


class ApiTokenText:
    """What a person would copy from the page."""

    def __init__(self, page: str) -> None:
        _, _, rest = page.partition('id="token"')
        self.found = rest.partition('value="')[2].partition('"')[0]


def test_the_list_says_who_when_and_until_when(by_responder: Client) -> None:
    at = now().replace(microsecond=0)
    with time_machine.travel(at, tick=False):
        text = issued(by_responder)
        words = words_of(by_responder.get(LIST))
        assert f"{at:%Y-%m-%d %H:%M:%S} UTC by rita never" in words
        assert f"{at + timedelta(days=90):%Y-%m-%d %H:%M:%S} UTC" in words
        status_of(text)
    with time_machine.travel(at + timedelta(minutes=5), tick=False):
        assert "5 min ago" in words_of(by_responder.get(LIST))
    entry = AuditTrail.objects.get(action="api token added")
    assert (entry.actor, entry.subject) == ("rita", "ci")
    assert text not in str(entry.details)


def test_a_token_that_ran_out_opens_nothing_and_says_so(by_responder: Client) -> None:
    at = now()
    with time_machine.travel(at, tick=False) as clock:
        text = issued(by_responder, days="1")
        clock.move_to(at + timedelta(days=1, seconds=-1))
        assert status_of(text) == 422
        assert "stands" in words_of(by_responder.get(LIST))
        clock.move_to(at + timedelta(days=1))
        assert status_of(text) == 401
        assert "ran out" in words_of(by_responder.get(LIST))
        assert (
            reverse("api_token_revoke", args=["ci"]) not in by_responder.get(LIST).content.decode()
        )


def test_without_days_it_stands_until_it_is_revoked(by_responder: Client) -> None:
    text = issued(by_responder, days="")
    assert ApiToken.objects.get().expires_at is None
    assert "when revoked" in words_of(by_responder.get(LIST))
    revoke = reverse("api_token_revoke", args=["ci"])
    after = by_responder.post(revoke, follow=True)
    assert "ci is revoked" in words_of(after)
    assert status_of(text) == 401
    assert AuditTrail.objects.get(action="api token revoked").actor == "rita"
    assert "no token called ci stands" in words_of(by_responder.post(revoke, follow=True))


@pytest.mark.parametrize(("field", "value"), [("name", ""), ("name", "a b"), ("days", "0")])
def test_a_wrong_field_issues_nothing(by_responder: Client, field: str, value: str) -> None:
    response = by_responder.post(ADD, {"name": "ci", "days": "90", field: value})
    assert f'id="id_{field}_error"' in response.content.decode()
    assert not ApiToken.objects.exists()


def test_acts_need_a_role_and_the_list_shows_none_without(by_outsider: Client) -> None:
    token_add(name="ci", actor="ada")
    page = by_outsider.get(LIST)
    assert "ci" in words_of(page)
    revoke = reverse("api_token_revoke", args=["ci"])
    assert revoke not in page.content.decode()
    assert ADD not in page.content.decode()
    assert by_outsider.get(ADD).status_code == 403
    assert by_outsider.post(ADD, {"name": "other", "days": "1"}).status_code == 403
    assert by_outsider.post(revoke).status_code == 403
    assert by_outsider.get(revoke).status_code == 405
    assert [one.is_standing for one in ApiToken.objects.all()] == [True]


def test_every_page_leads_there(by_outsider: Client) -> None:
    assert f'href="{LIST}"' in by_outsider.get("/deployments/").content.decode()


def test_the_command_takes_days_and_tells_them() -> None:
    out, told = io.StringIO(), io.StringIO()
    at = now()
    with time_machine.travel(at, tick=False) as clock:
        call_command("api_token", "add", "ci", "--days", "2", stdout=out, stderr=told)
        clock.move_to(at + timedelta(days=2))
        with pytest.raises(TokenUnknown):
            token_use(text=out.getvalue().strip())
        listed = io.StringIO()
        call_command("api_token", "list", stdout=listed)
        assert f"ran out {at + timedelta(days=2):%Y-%m-%d %H:%M}Z" in listed.getvalue()
    with pytest.raises(CommandError):
        call_command("api_token", "add", "x", "--days", "0", stdout=out, stderr=told)
    assert not ApiToken.objects.filter(name="x").exists()
