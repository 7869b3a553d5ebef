"""Of one kind a single contradiction is open for an operation; what is asked about again waits for it."""

from django.db import migrations, models

# What is open beside another waits for it, and is asked about again when that is decided.
_IN_LINE = """
update public.tasks_app_conflict c
   set resolution = 'kept', resolved_by = 'system', resolved_at = now(),
       waits_because = 'Another contradiction of its kind was open'
 where c.resolved_at is null and exists (
   select from public.tasks_app_conflict o
    where o.operation_id = c.operation_id and o.kind = c.kind and o.resolved_at is null and o.id < c.id)
"""


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0058_set_off_again")]
    operations = [
        migrations.AddField(
            model_name="conflict",
            name="waits_because",
            field=models.TextField(blank=True, default=""),
            preserve_default=False,
        ),
        migrations.RunSQL(_IN_LINE, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="conflict",
            constraint=models.UniqueConstraint(
                condition=models.Q(("resolved_at__isnull", True)),
                fields=("operation", "kind"),
                name="one_open_conflict_per_kind",
            ),
        ),
    ]
