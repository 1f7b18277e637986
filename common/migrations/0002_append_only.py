"""Closes the audit trail to any change."""

from __future__ import annotations

from django.db import migrations

from common.appendonly import append_only


class Migration(migrations.Migration):
    dependencies = [("common", "0001_initial")]

    operations = [append_only("common_audittrail")]
