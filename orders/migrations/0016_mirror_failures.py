"""A counter of failed readings that a seller cannot fill."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0015_use_known_at_once")]
    operations = [
        migrations.AlterField(
            model_name="dealmirror", name="failures", field=models.PositiveIntegerField(default=0)
        ),
    ]
