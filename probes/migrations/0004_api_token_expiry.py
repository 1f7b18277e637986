from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('probes', '0003_finding_remedies'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='expires_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
