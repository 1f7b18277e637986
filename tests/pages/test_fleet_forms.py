from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from common.models import AuditTrail
from fleet.models import Credential, Deployment, Node, Purpose
from tests.incidents.builders import make_deployment, make_node
from tests.pages.asking import words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_parts_up")]

DEPLOYMENT: dict[str, Any] = {
    "name": "glm",
    "model": "glm-5.3",
    "engine": "sglang",
    "router_kind": "sglang-router",
    "router_url": "http://127.0.0.1:21000",
    "advertised_context": "1048576",
    "headroom": "1.25",
    "granted_tokens": "0",
}


def test_forms_need_a_role(by_outsider: Client) -> None:
    make_deployment("glm")
    addresses = [reverse("deployment_add")] + [
        reverse(name, args=["glm"])
        for name in ("deployment_change", "node_add", "credentials_set", "grant_change")
    ]
    for address in addresses:
        assert by_outsider.get(address).status_code == 403, address
        assert by_outsider.post(address, DEPLOYMENT).status_code == 403, address


def test_a_deployment_is_added_by_form(by_responder: Client) -> None:
    response = by_responder.post(reverse("deployment_add"), DEPLOYMENT)
    assert response["Location"] == reverse("deployment", args=["glm"])
    deployment = Deployment.objects.get()
    assert (deployment.model, deployment.advertised_context) == ("glm-5.3", 1_048_576)
    assert AuditTrail.objects.filter(action="deployment_added", actor="rita").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("headroom", "0.9"),
        ("headroom", "x"),
        ("router_url", "ftp://x"),
        ("name", "a b"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(
    by_responder: Client, field: str, value: str
) -> None:
    response = by_responder.post(reverse("deployment_add"), {**DEPLOYMENT, field: value})
    assert response.status_code == 200
    assert f'id="id_{field}_error"' in response.content.decode()
    assert not Deployment.objects.exists()


def test_a_taken_name_is_refused(by_responder: Client) -> None:
    make_deployment("glm")
    response = by_responder.post(reverse("deployment_add"), DEPLOYMENT)
    assert "A deployment is called glm already" in words_of(response)


def test_a_deployment_is_changed_and_keeps_its_own_name(by_responder: Client) -> None:
    make_deployment("glm")
    by_responder.post(
        reverse("deployment_change", args=["glm"]), {**DEPLOYMENT, "model": "glm-5.4"}
    )
    assert Deployment.objects.get().model == "glm-5.4"


def test_a_node_is_added_by_form(by_responder: Client) -> None:
    make_deployment("glm")
    given = {"name": "prefill-1", "url": "http://127.0.0.1:1/", "role": "prefill"}
    by_responder.post(reverse("node_add", args=["glm"]), given)
    node = Node.objects.get()
    assert (node.name, node.url, node.role) == ("prefill-1", "http://127.0.0.1:1", "prefill")


def test_a_node_s_name_and_address_are_not_given_twice(by_responder: Client) -> None:
    node = make_node(make_deployment("glm"), "prefill-1")
    given = {"name": "prefill-1", "url": f"{node.url}/", "role": "prefill"}
    words = words_of(by_responder.post(reverse("node_add", args=["glm"]), given))
    assert "A node is called prefill-1 already" in words
    assert "A node stands at this address already" in words


def test_keys_are_sealed_and_never_shown(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    address = reverse("credentials_set", args=["glm"])
    key = "sk-tenant-a-made-up"
    by_responder.post(address, {"tenant_a_key": key, "tenant_a_name": "probe-a"})
    credential = Credential.objects.get(purpose=Purpose.TENANT_A)
    assert credential.key == key
    assert key.encode() not in bytes(credential.sealed)
    for page in (address, reverse("deployment", args=["glm"])):
        shown = by_responder.get(page).content.decode()
        assert key not in shown
    assert "probe-a" in by_responder.get(address).content.decode()
    assert "tenant A" in words_of(by_responder.get(reverse("deployment", args=["glm"])))
    assert deployment.credentials.count() == 1


def test_an_empty_key_leaves_what_is_set(by_responder: Client) -> None:
    make_deployment("glm")
    address = reverse("credentials_set", args=["glm"])
    by_responder.post(address, {"node_key": "first"})
    by_responder.post(address, {"node_key": "", "router_key": "second"})
    assert Credential.objects.get(purpose=Purpose.NODE).key == "first"


def test_a_refused_key_form_does_not_repeat_the_key(by_responder: Client) -> None:
    make_deployment("glm")
    given = {"node_key": "sk-long", "tenant_a_name": "x" * 61}
    response = by_responder.post(reverse("credentials_set", args=["glm"]), given)
    assert response.status_code == 200
    assert "sk-long" not in response.content.decode()


def test_the_grant_changes_alone(by_responder: Client) -> None:
    deployment = make_deployment("glm")
    deployment.router_url = "http://127.0.0.1:21000"
    deployment.save()
    by_responder.post(reverse("grant_change", args=["glm"]), {"granted_tokens": "400000"})
    deployment.refresh_from_db()
    assert deployment.granted_tokens == 400_000
    assert deployment.router_url == "http://127.0.0.1:21000"
