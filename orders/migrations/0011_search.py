"""Packages found by the seller's name for them. Built beside running work: outside a transaction."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("orders", "0010_calendar")]
    operations = [
        AddIndexConcurrently(
            model_name="dealline",
            index=models.Index(
                condition=models.Q(("package_id", ""), _negated=True),
                fields=["package_id"],
                name="line_package",
            ),
        ),
    ]
