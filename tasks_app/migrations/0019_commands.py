"""Commands, their decisions, the kill switch, messages; turns of operations; the request behind a job."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import tasks_app.ids

_APPEND_ONLY = """
create trigger {table}_rows before update or delete on tasks_app_{table}
  for each row execute function fd_append_only();
create trigger {table}_truncate before truncate on tasks_app_{table}
  for each statement execute function fd_append_only();
"""
# A function, so that the application's role needs no right of its own to write events.
_MESSAGE_DUE = """
create function fd_message_due(p_id uuid, p_at timestamptz) returns void
language sql security definer set search_path from current as $$
  insert into tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
  values ('message.to_send', 'message', p_id, 1, '{}', p_at)
$$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0018_operation_leases"),
    ]

    operations = [
        migrations.CreateModel(
            name="Command",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("key", models.CharField(max_length=160, unique=True)),
                ("kind", models.CharField(max_length=40)),
                ("adapter", models.CharField(max_length=20)),
                ("payload", models.JSONField()),
                ("digest", models.CharField(max_length=64)),
                ("subject_type", models.CharField(blank=True, max_length=32)),
                ("subject_id", models.UUIDField(null=True)),
                ("requested_by", models.CharField(max_length=80)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                ("result", models.JSONField(default=dict)),
                ("executed_at", models.DateTimeField(null=True)),
                ("refused_at", models.DateTimeField(null=True)),
                ("refused_why", models.TextField(blank=True)),
                ("replays", models.PositiveIntegerField(default=0)),
                ("waiting_since", models.DateTimeField(null=True)),
                ("repeated", models.BooleanField(default=False)),
                ("awaited", models.BooleanField(default=False)),
                ("asked_at", models.DateTimeField(null=True)),
                ("gate_round", models.PositiveIntegerField(default=0)),
                ("overrides", models.JSONField(default=list)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="CommandDecision",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "code",
                    models.CharField(
                        choices=[
                            ("executed", "Executed"),
                            ("waits_at_gate", "Waits"),
                            ("gate_overridden", "Overridden"),
                            ("gate_open_again", "Reopened"),
                            ("repeat_allowed", "Repeated"),
                            ("refused", "Refused"),
                        ],
                        max_length=20,
                    ),
                ),
                ("gates", models.JSONField(default=dict)),
                ("note", models.TextField(blank=True)),
                ("trace_id", models.CharField(blank=True, max_length=64)),
                ("request", models.CharField(blank=True, max_length=64)),
                ("team", models.CharField(blank=True, max_length=36)),
                ("user", models.CharField(blank=True, max_length=80)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="KillSwitch",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("on", models.BooleanField(verbose_name="stops commands")),
                ("reason", models.CharField(max_length=500)),
                ("actor", models.CharField(editable=False, max_length=80)),
                ("request", models.CharField(blank=True, editable=False, max_length=64)),
                ("at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                "verbose_name_plural": "kill switch",
                "ordering": ["-id"],
                "permissions": [("turn_kill_switch", "May stop commands, and let them go on")],
            },
        ),
        migrations.CreateModel(
            name="OutgoingMessage",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("to", models.EmailField(max_length=254)),
                ("subject", models.CharField(max_length=200)),
                ("body", models.TextField()),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                ("sent_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.AddField(
            model_name="job",
            name="request_id",
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name="operation",
            name="share",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="turn_at",
            field=models.DateTimeField(default=django.utils.timezone.now),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("send_at__isnull", False), ("share__isnull", False)),
                fields=["seller", "share", "turn_at"],
                name="operation_turns",
            ),
        ),
        migrations.AddField(
            model_name="command",
            name="seller",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tasks_app.seller",
            ),
        ),
        migrations.AddField(
            model_name="command",
            name="team",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tasks_app.team"
            ),
        ),
        migrations.AddField(
            model_name="commanddecision",
            name="command",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="decisions", to="tasks_app.command"
            ),
        ),
        migrations.AddField(
            model_name="killswitch",
            name="team",
            field=models.ForeignKey(
                blank=True,
                help_text="Empty: all teams.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tasks_app.team",
            ),
        ),
        migrations.AddField(
            model_name="outgoingmessage",
            name="command",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT, related_name="message", to="tasks_app.command"
            ),
        ),
        migrations.AddIndex(
            model_name="command",
            index=models.Index(fields=["subject_type", "subject_id"], name="command_by_subject"),
        ),
        migrations.AddIndex(
            model_name="command",
            index=models.Index(
                condition=models.Q(("waiting_since__isnull", False)),
                fields=["asked_at"],
                name="command_waiting",
            ),
        ),
        migrations.AddIndex(
            model_name="killswitch",
            index=models.Index(fields=["team", "-id"], name="kill_switch_latest"),
        ),
        *(
            migrations.RunSQL(_APPEND_ONLY.format(table=table), migrations.RunSQL.noop)
            for table in ("commanddecision", "killswitch")
        ),
        migrations.RunSQL(_MESSAGE_DUE, "drop function fd_message_due(uuid, timestamptz)"),
    ]
