"""One row, one worker: claims by compare-and-set, freed by time."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from common.clock import now
from common.leases import LEASE_LASTS
from fleet.models import Deployment
from probes.models import Audit

pytestmark = pytest.mark.django_db


@pytest.fixture
def audit() -> Audit:
    deployment = Deployment.objects.create(name="one", model="m")
    return Audit.objects.create(deployment=deployment, requested_by="test")


def test_only_the_first_claim_holds(audit: Audit) -> None:
    assert Audit.objects.all().claim(audit.pk, owner="a")
    assert not Audit.objects.all().claim(audit.pk, owner="b")


def test_a_dead_holder_is_replaced_after_its_lease(audit: Audit) -> None:
    Audit.objects.all().claim(audit.pk, owner="dead")
    with time_machine.travel(now() + LEASE_LASTS + timedelta(seconds=1), tick=False):
        assert Audit.objects.all().claim(audit.pk, owner="b")
        assert not Audit.objects.all().renew(audit.pk, owner="dead")
    audit.refresh_from_db()
    assert audit.attempts == 2


def test_release_by_another_changes_nothing(audit: Audit) -> None:
    Audit.objects.all().claim(audit.pk, owner="a")
    Audit.objects.all().release(audit.pk, owner="b")
    assert not Audit.objects.all().claim(audit.pk, owner="b")
    Audit.objects.all().release(audit.pk, owner="a")
    assert Audit.objects.all().claim(audit.pk, owner="b")
