"""Campaigns found by the beginning of their name. Built beside running work: outside a transaction."""

from django.contrib.postgres.indexes import OpClass
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Upper


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("campaigns", "0014_calendar")]
    operations = [
        AddIndexConcurrently(
            model_name="campaign",
            index=models.Index(OpClass(Upper("name"), name="text_pattern_ops"), name="campaign_by_name"),
        ),
    ]
