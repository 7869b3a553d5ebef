"""Accounts are followed at their sellers while their state is awaited."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0028_definers"),
    ]

    operations = [
        migrations.AddField(
            model_name="account",
            name="next_read_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="account",
            name="read_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="account",
            name="refused_reference",
            field=models.JSONField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="account",
            name="requested_by",
            field=models.CharField(blank=True, editable=False, max_length=80),
        ),
        migrations.AddField(
            model_name="account",
            name="said",
            field=models.JSONField(default=dict, editable=False),
        ),
        migrations.AddField(
            model_name="account",
            name="status_since",
            field=models.DateTimeField(default=django.utils.timezone.now, editable=False),
        ),
        migrations.AlterField(
            model_name="account",
            name="status",
            field=models.CharField(
                choices=[
                    ("active", "Active"),
                    ("pending_approval", "Pending"),
                    ("payment_required", "Payment required"),
                    ("suspended", "Suspended"),
                    ("rejected", "Rejected"),
                    ("closed", "Closed"),
                ],
                default="pending_approval",
                max_length=20,
            ),
        ),
        migrations.AddIndex(
            model_name="account",
            index=models.Index(
                condition=models.Q(("next_read_at__isnull", False)),
                fields=["next_read_at"],
                name="account_to_read",
            ),
        ),
        migrations.RunSQL(
            "UPDATE tasks_app_account SET status_since = created_at,"
            " next_read_at = CASE WHEN status = 'pending_approval' THEN now() END",
            migrations.RunSQL.noop,
        ),
    ]
