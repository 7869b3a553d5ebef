"""The calendar finds deals by their dates, the dashboard those that differ: built beside a database that is in use."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("orders", "0009_mirror")]
    operations = [
        AddIndexConcurrently(
            model_name="deal",
            index=models.Index(
                condition=models.Q(("status__in", ("quoted", "negotiating", "accepted", "booking"))),
                fields=["start_at", "id"],
                name="deal_unsettled",
            ),
        ),
        AddIndexConcurrently(
            model_name="deal",
            index=models.Index(
                condition=models.Q(
                    (
                        "status__in",
                        ("booked", "delivering", "completed", "makegood_pending", "partially_canceled"),
                    )
                ),
                fields=["end_at", "id"],
                name="deal_booked",
            ),
        ),
        AddIndexConcurrently(
            model_name="deal",
            index=models.Index(fields=["-id"], name="deal_differs", condition=models.Q(("differs", True))),
        ),
    ]
