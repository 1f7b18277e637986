from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('probes', '0007_marker_secrets'),
    ]

    operations = [
        migrations.AddField(
            model_name='audit',
            name='rounds',
            field=models.JSONField(db_default=[], default=list),
        ),
    ]
