"""Which canary plans the audits of a deployment run."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the list; an empty one means the boundary alone, as before."""

    dependencies = [("fleet", "0006_readings_pruned")]

    operations = [
        migrations.AddField(
            model_name="deployment",
            name="plans",
            field=models.JSONField(
                blank=True, db_default=[], default=list, verbose_name="canary plans"
            ),
        ),
    ]
