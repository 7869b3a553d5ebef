"""The event bus: positions of events, and how far each subscriber is."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import tasks_app.ids

# An event is what was committed with its transition: the application gives it a position, and nothing else.
_STREAM = """
insert into tasks_app_eventstream (id, head) values (1, 0) on conflict do nothing;
do $$ begin
  if exists (select from pg_roles where rolname = 'flightdeck_app') then
    revoke update on tasks_app_outboxevent from flightdeck_app;
    grant update (position) on tasks_app_outboxevent to flightdeck_app;
  end if;
end $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0004_enforcement"),
    ]

    operations = [
        migrations.CreateModel(
            name="EventCount",
            fields=[
                ("type", models.CharField(max_length=80, primary_key=True, serialize=False)),
                ("total", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="EventDelivery",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("subscriber", models.CharField(max_length=64)),
                ("position", models.BigIntegerField()),
                ("entity_type", models.CharField(max_length=32)),
                ("entity_id", models.UUIDField()),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("due_at", models.DateTimeField(null=True)),
                ("gave_up_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
                ("retried_by", models.CharField(blank=True, max_length=80)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                "verbose_name_plural": "event deliveries",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="EventStream",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("head", models.BigIntegerField(default=0)),
                ("pruned_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="EventSubscription",
            fields=[
                ("name", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("position", models.BigIntegerField()),
                ("in_hand_to", models.BigIntegerField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name="outboxevent",
            name="position",
            field=models.BigIntegerField(editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name="outboxevent",
            index=models.Index(
                condition=models.Q(("position__isnull", True)), fields=["id"], name="event_unnumbered"
            ),
        ),
        migrations.AddConstraint(
            model_name="outboxevent",
            constraint=models.UniqueConstraint(
                condition=models.Q(("position__isnull", False)),
                fields=("position",),
                name="event_once_per_position",
            ),
        ),
        migrations.AddField(
            model_name="eventdelivery",
            name="event",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="deliveries",
                to="tasks_app.outboxevent",
            ),
        ),
        migrations.AddIndex(
            model_name="eventdelivery",
            index=models.Index(
                fields=["subscriber", "entity_type", "entity_id", "position"], name="delivery_by_entity"
            ),
        ),
        migrations.AddIndex(
            model_name="eventdelivery",
            index=models.Index(
                condition=models.Q(("due_at__isnull", False)),
                fields=["subscriber", "due_at"],
                name="delivery_due",
            ),
        ),
        migrations.AddIndex(
            model_name="eventdelivery",
            index=models.Index(
                condition=models.Q(("gave_up_at__isnull", False)),
                fields=["-gave_up_at"],
                name="delivery_gave_up",
            ),
        ),
        migrations.AddConstraint(
            model_name="eventdelivery",
            constraint=models.UniqueConstraint(
                fields=("subscriber", "event"), name="delivery_once_per_subscriber"
            ),
        ),
        migrations.AddConstraint(
            model_name="eventdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("due_at__isnull", True), ("gave_up_at__isnull", True), _connector="OR"),
                name="delivery_due_or_given_up",
            ),
        ),
        migrations.RunSQL(_STREAM, migrations.RunSQL.noop),
    ]
