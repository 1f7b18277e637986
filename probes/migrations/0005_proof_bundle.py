from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('probes', '0004_api_token_expiry'),
    ]

    operations = [
        migrations.AddField(
            model_name='proof',
            name='bundle',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
    ]
