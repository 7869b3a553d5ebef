"""Steps are taken by lane; a step completed, its successors released and the next claimed is one call; what it
needs to know is counted; indexes that others cover are gone, for each of them cost every move of a step."""

import django.db.models.deletion
from django.db import migrations, models

from tasks_app.lifecycle.install import install_audit, install_steps

# What was begun before there were counts.
_COUNT = """
update tasks_app_job j set active_steps = (
  select count(*) from tasks_app_step s where s.job_id = j.id and s.fan_out_id is null
     and s.status in ('queued', 'executing', 'awaiting_tool', 'awaiting_user_confirmation'))
 where j.ended_at is null;
update tasks_app_step w set incoming = (
  select count(*) from tasks_app_step i where i.fan_out_id = w.id
     and i.status not in ('completed', 'failed', 'cancelled'))
 where w.status = 'awaiting_tool' and w.waiting_for @> '{"type": "items"}';
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0016_leases_unindexed"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="step",
            name="step_ready",
        ),
        migrations.AddField(
            model_name="job",
            name="active_steps",
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
        migrations.AddField(
            model_name="step",
            name="lane",
            field=models.CharField(
                choices=[("recipes", "Recipes"), ("background", "Background")],
                default="recipes",
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="step",
            name="fan_out",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="items",
                to="tasks_app.step",
            ),
        ),
        migrations.AlterField(
            model_name="step",
            name="job",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="steps",
                to="tasks_app.job",
            ),
        ),
        migrations.AlterField(
            model_name="workflowevent",
            name="idempotency_key",
            field=models.CharField(max_length=160),
        ),
        migrations.AlterField(
            model_name="workflowevent",
            name="job",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="events",
                to="tasks_app.job",
            ),
        ),
        migrations.AddIndex(
            model_name="step",
            index=models.Index(
                condition=models.Q(("ready_at__isnull", False)),
                fields=["lane", "priority", "ready_at", "id"],
                name="step_ready",
            ),
        ),
        migrations.AddIndex(
            model_name="step",
            index=models.Index(
                condition=models.Q(("fan_out__isnull", False)),
                fields=["fan_out", "item_index"],
                name="step_items",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowevent",
            constraint=models.UniqueConstraint(fields=("idempotency_key",), name="event_told_once"),
        ),
        migrations.RunSQL(_COUNT, migrations.RunSQL.noop),
        install_audit(),
        install_steps(),
    ]
