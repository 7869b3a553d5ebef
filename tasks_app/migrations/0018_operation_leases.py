"""Leases of calls that are out move from the operations' wide rows into a narrow table of their own."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

# The table holds what is out now, and every row of it is soon dead: vacuumed by count, not by share, at once.
# Room on each page keeps a renewal on it (HOT).
_CHURN = """
alter table tasks_app_calllease set (
  fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000)
"""
# What is out during the upgrade stays so until its lease ends.
_MOVED = """
insert into tasks_app_calllease (id, seller_id, until)
select id, seller_id, lease_until from tasks_app_operation
 where (send_at is not null or next_poll_at is not null) and lease_until > now()
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0017_step_calls"),
    ]

    operations = [
        migrations.CreateModel(
            name="CallLease",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("until", models.DateTimeField()),
                (
                    "seller",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="tasks_app.seller",
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["seller"], name="lease_by_seller")]},
        ),
        migrations.RunSQL(_CHURN, migrations.RunSQL.noop),
        migrations.RunSQL(_MOVED, migrations.RunSQL.noop),
        # Who may decide is told, and never the one who asked.
        migrations.AddField(model_name="approval", name="told_at", field=models.DateTimeField(null=True)),
        migrations.AddField(model_name="approval", name="reminded_at", field=models.DateTimeField(null=True)),
        migrations.AddField(
            model_name="notification", name="not_for", field=models.CharField(blank=True, max_length=80)
        ),
        # Key ids that sellers have published: new ones are told of.
        migrations.CreateModel(
            name="SellerKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key_id", models.CharField(max_length=120)),
                ("first_seen_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "seller",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="tasks_app.seller"),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("seller", "key_id"), name="seller_key_once")]
            },
        ),
        migrations.RemoveField(model_name="operation", name="lease_until"),
    ]
