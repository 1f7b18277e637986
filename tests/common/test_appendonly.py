"""The audit trail takes entries and nothing else."""

from __future__ import annotations

import pytest
from django.db import ProgrammingError, connection

from common.models import AuditTrail
from common.trail import record

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE common_audittrail SET actor = 'somebody else'",
        "DELETE FROM common_audittrail",
        "TRUNCATE common_audittrail",
    ],
)
def test_an_entry_is_neither_changed_nor_removed(sql: str) -> None:
    record(actor="rita", action="audit_requested", subject="drill")
    with pytest.raises(ProgrammingError, match="append-only"), connection.cursor() as cursor:
        cursor.execute(sql)


def test_entries_say_who_did_what() -> None:
    record(actor="rita", action="audit_requested", subject="drill", reason="drift")
    entry = AuditTrail.objects.get()
    assert (entry.actor, entry.action, entry.details) == (
        "rita",
        "audit_requested",
        {"reason": "drift"},
    )
