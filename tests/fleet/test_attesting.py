"""What people vouch for: who may, for how long, of which node, and that it reaches a reading."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from common.clock import now
from common.models import AuditTrail
from common.roles import NotAllowed
from fleet.attestable import ATTESTABLE
from fleet.attesting import LONGEST, AttestationTerms, attestation_add, attestation_withdraw
from fleet.contract import ENGINES
from fleet.live import capture_node
from fleet.models import Attestation, Deployment
from fleet.selectors import attestations_standing, deployment_access
from probes.gates import bounded_transfer, decode_admission, safe_rejection
from probes.limits import WINDOW
from probes.stale_cache import CLEARED
from probes.vouched import BATCH_LIMIT, DEFERRED_RELEASE
from tests.fleet.wire import broken, client_of
from tests.incidents.builders import make_deployment, make_node

pytestmark = pytest.mark.django_db


def terms(**over: Any) -> AttestationTerms:  # noqa: ANN401 - any term
    given = {
        "key": "transfer_backend",
        "value": "mori",
        "reason": "read in the unit file",
        "until": now() + timedelta(days=30),
    }
    return AttestationTerms(**{**given, **over})


def said_of(deployment: Deployment) -> dict[str, dict[str, str]]:
    access = deployment_access(deployment)
    return {node.name: {word.key: word.value for word in node.attested} for node in access.nodes}


def test_a_word_is_kept_with_name_reason_and_expiry(responder: User) -> None:
    deployment = make_deployment("glm")
    given = attestation_add(person=responder, deployment=deployment, terms=terms())
    assert (given.by, given.reason, given.is_standing) == ("rita", "read in the unit file", True)
    trail = AuditTrail.objects.get(action="attestation_added")
    assert (trail.actor, trail.subject) == ("rita", "glm transfer_backend")


def test_it_needs_a_role(outsider: User, responder: User) -> None:
    deployment = make_deployment("glm")
    with pytest.raises(NotAllowed):
        attestation_add(person=outsider, deployment=deployment, terms=terms())
    given = attestation_add(person=responder, deployment=deployment, terms=terms())
    with pytest.raises(NotAllowed):
        attestation_withdraw(person=outsider, attestation=given)
    assert attestations_standing(deployment) == [given]


@pytest.mark.parametrize(
    "over",
    [
        {"until": now() - timedelta(seconds=1)},
        {"until": now() + LONGEST + timedelta(days=1)},
        {"reason": " "},
        {"key": "two words"},
        {"value": ""},
    ],
)
def test_what_cannot_be_vouched_for_is_refused(responder: User, over: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        attestation_add(person=responder, deployment=make_deployment("glm"), terms=terms(**over))
    assert not Attestation.objects.exists()


def test_a_node_of_another_deployment_is_refused(responder: User) -> None:
    other = make_node(make_deployment("other"), "prefill-1")
    with pytest.raises(ValidationError):
        attestation_add(
            person=responder, deployment=make_deployment("glm"), terms=terms(node=other)
        )


def test_a_new_word_withdraws_the_old_one(responder: User, commander: User) -> None:
    deployment = make_deployment("glm")
    make_node(deployment, "prefill-1")
    attestation_add(person=responder, deployment=deployment, terms=terms(value="nixl"))
    attestation_add(person=commander, deployment=deployment, terms=terms(value="mori"))
    assert said_of(deployment) == {"prefill-1": {"transfer_backend": "mori"}}
    assert Attestation.objects.get(value="nixl").withdrawn_by == "carl"


def test_what_is_said_of_a_node_stands_before_what_is_said_of_all(responder: User) -> None:
    deployment = make_deployment("glm")
    node = make_node(deployment, "prefill-1")
    make_node(deployment, "prefill-2")
    attestation_add(person=responder, deployment=deployment, terms=terms(node=node))
    attestation_add(person=responder, deployment=deployment, terms=terms(value="nixl"))
    assert said_of(deployment) == {
        "prefill-1": {"transfer_backend": "mori"},
        "prefill-2": {"transfer_backend": "nixl"},
    }


def test_what_ran_out_or_was_withdrawn_is_not_said(responder: User) -> None:
    deployment = make_deployment("glm")
    make_node(deployment, "prefill-1")
    given = attestation_add(person=responder, deployment=deployment, terms=terms())
    Attestation.objects.filter(pk=given.pk).update(until=now() - timedelta(seconds=1))
    assert said_of(deployment) == {"prefill-1": {}}
    again = attestation_add(person=responder, deployment=deployment, terms=terms())
    attestation_withdraw(person=responder, attestation=again)
    attestation_withdraw(person=responder, attestation=again)
    assert said_of(deployment) == {"prefill-1": {}}
    assert AuditTrail.objects.filter(action="attestation_withdrawn").count() == 1


def test_it_reaches_the_capture_and_changes_the_fingerprint(responder: User) -> None:
    deployment = make_deployment("glm")
    make_node(deployment, "prefill-1")
    prints = []
    for value in ("nixl", "mori"):
        attestation_add(person=responder, deployment=deployment, terms=terms(value=value))
        (node,) = deployment_access(deployment).nodes
        capture = asyncio.run(capture_node(client_of(broken), node))
        assert capture.attested["transfer_backend"].by == "rita"
        prints.append(ENGINES.get("sglang").read(capture).fingerprint)
    assert prints[0] != prints[1]


def test_every_name_that_a_gate_asks_for_is_documented() -> None:
    asked = {
        BATCH_LIMIT,
        CLEARED,
        DEFERRED_RELEASE,
        WINDOW,
        bounded_transfer.QUEUE,
        *bounded_transfer.LEASE,
        decode_admission.RESERVE,
        safe_rejection.IMAGE,
        safe_rejection.PATCH,
        "transfer_backend",
    }
    assert asked <= {*ATTESTABLE}
