"""What the queue is read by where 50,000 approvals are open and a million have ended."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tasks_app", "0025_people")]
    operations = [
        AddIndexConcurrently(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("status", "open")), fields=["due_at", "id"], name="approval_due"
            ),
        ),
        AddIndexConcurrently(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("status", "open")),
                fields=["requested_by", "due_at"],
                name="approval_asked",
            ),
        ),
        AddIndexConcurrently(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("status", "open"), _negated=True),
                fields=["-status_since"],
                name="approval_ended",
            ),
        ),
    ]
