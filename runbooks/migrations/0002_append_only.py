"""Closes approvals to any change."""

from __future__ import annotations

from django.db import migrations

from common.appendonly import append_only


class Migration(migrations.Migration):
    dependencies = [("runbooks", "0001_initial")]

    operations = [append_only("runbooks_approval")]
