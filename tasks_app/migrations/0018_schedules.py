"""Worker clusters and their lanes, schedules, and events from outside."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import tasks_app.ids

# What happened to a schedule stays as it was written.
_APPEND_ONLY = """
do $$ begin
  if exists (select from pg_roles where rolname = 'flightdeck_app') then
    revoke update, delete, truncate on tasks_app_scheduleentry from flightdeck_app;
  end if;
end $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0017_step_calls"),
    ]

    operations = [
        migrations.CreateModel(
            name="WorkerCluster",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("host", models.CharField(max_length=255)),
                ("lanes", models.JSONField(default=list)),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["id"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="OutsideEvent",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=80)),
                ("correlation", models.CharField(blank=True, max_length=200)),
                ("payload", models.JSONField(default=dict)),
                ("idempotency_key", models.CharField(max_length=200)),
                ("digest", models.CharField(max_length=64)),
                ("delivered_by", models.CharField(max_length=80)),
                ("received_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("taken_at", models.DateTimeField(null=True)),
                (
                    "step",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="outside_events",
                        to="tasks_app.step",
                    ),
                ),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="tasks_app.team")),
            ],
            options={
                "ordering": ["-id"],
                "permissions": [("deliver_event", "May deliver outside events")],
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="EventWait",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=80)),
                ("correlation", models.CharField(blank=True, max_length=200)),
                ("until", models.DateTimeField(null=True)),
                (
                    "late",
                    models.CharField(
                        choices=[("fail", "Fail"), ("continue", "Continue")], default="fail", max_length=8
                    ),
                ),
                ("closed_at", models.DateTimeField(null=True)),
                (
                    "step",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="event_waits",
                        to="tasks_app.step",
                    ),
                ),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="tasks_app.team")),
                (
                    "event",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tasks_app.outsideevent",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=80)),
                ("recipe", models.CharField(max_length=60)),
                ("inputs", models.JSONField(blank=True, default=dict)),
                ("start_at", models.DateTimeField(blank=True, null=True)),
                ("cron", models.CharField(blank=True, max_length=120)),
                ("zone", models.CharField(default="UTC", max_length=64)),
                (
                    "missed",
                    models.CharField(
                        choices=[("once", "Run once for all of them"), ("skip", "Skip them")],
                        default="once",
                        max_length=4,
                    ),
                ),
                ("priority", models.PositiveSmallIntegerField(default=100)),
                ("paused", models.BooleanField(default=False)),
                ("actor", models.CharField(max_length=80)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("next_due_at", models.DateTimeField(null=True)),
                ("last_due_at", models.DateTimeField(null=True)),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="tasks_app.team")),
            ],
            options={
                "ordering": ["-id"],
                "permissions": [("schedule_job", "May start jobs, now and by schedule")],
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="ScheduleEntry",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("created", "Created"),
                            ("changed", "Changed"),
                            ("paused", "Paused"),
                            ("resumed", "Resumed"),
                            ("started", "Started"),
                            ("skipped", "Skipped"),
                            ("failed", "Failed"),
                        ],
                        max_length=8,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("by", models.CharField(max_length=80)),
                ("due_at", models.DateTimeField(null=True)),
                ("note", models.TextField(blank=True)),
                ("changes", models.JSONField(default=dict)),
                (
                    "job",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tasks_app.job",
                    ),
                ),
                (
                    "schedule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="entries",
                        to="tasks_app.schedule",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "default_permissions": (),
            },
        ),
        migrations.AddIndex(
            model_name="outsideevent",
            index=models.Index(
                condition=models.Q(("step__isnull", True)),
                fields=["team", "name", "correlation", "id"],
                name="outside_event_untaken",
            ),
        ),
        migrations.AddIndex(
            model_name="outsideevent",
            index=models.Index(fields=["received_at"], name="outside_event_by_time"),
        ),
        migrations.AddConstraint(
            model_name="outsideevent",
            constraint=models.UniqueConstraint(
                fields=("team", "idempotency_key"), name="outside_event_key_once"
            ),
        ),
        migrations.AddIndex(
            model_name="eventwait",
            index=models.Index(
                condition=models.Q(("closed_at__isnull", True), ("event__isnull", True)),
                fields=["team", "name", "correlation", "id"],
                name="event_wait_open",
            ),
        ),
        migrations.AddIndex(
            model_name="schedule",
            index=models.Index(
                condition=models.Q(("next_due_at__isnull", False), ("paused", False)),
                fields=["next_due_at"],
                name="schedule_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.UniqueConstraint(fields=("team", "name"), name="schedule_name_once_per_team"),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cron", ""), ("start_at__isnull", False)),
                    models.Q(("start_at__isnull", True), models.Q(("cron", ""), _negated=True)),
                    _connector="OR",
                ),
                name="schedule_at_a_time_or_by_cron",
            ),
        ),
        migrations.AddConstraint(
            model_name="scheduleentry",
            constraint=models.UniqueConstraint(
                condition=models.Q(("due_at__isnull", False)),
                fields=("schedule", "due_at"),
                name="schedule_due_once",
            ),
        ),
        migrations.RunSQL(_APPEND_ONLY, migrations.RunSQL.noop),
    ]
