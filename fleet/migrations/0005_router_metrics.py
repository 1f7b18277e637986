import fleet.validation
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0004_rotation_watch'),
    ]

    operations = [
        migrations.AddField(
            model_name='deployment',
            name='router_metrics_url',
            field=models.CharField(blank=True, db_default='', default='', max_length=200, validators=[fleet.validation.validate_address]),
        ),
    ]
