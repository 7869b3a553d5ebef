"""What the dashboard reads campaigns by where there are a hundred thousand."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("campaigns", "0016_owners_and_rights")]
    operations = [
        AddIndexConcurrently(
            model_name="campaign",
            index=models.Index(
                condition=models.Q(("budget__gt", 0)), fields=["end_at"], name="campaign_flight"
            ),
        ),
        AddIndexConcurrently(
            model_name="campaign",
            index=models.Index(
                condition=models.Q(
                    ("status__in", ("completed", "failed", "validation_failed")), _negated=True
                ),
                fields=["requested_by", "-id"],
                name="campaign_under_way",
            ),
        ),
    ]
