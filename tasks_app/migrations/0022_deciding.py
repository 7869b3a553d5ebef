"""Deciding: claims, threads, delegations, batches, mailed links; what one person is told; teams' webhooks."""

import django.db.models.deletion
import django.utils.timezone
import encrypted_fields.fields
from django.conf import settings
from django.db import migrations, models

import tasks_app.ids

# What was said, done together or followed stays as it was written.
_APPEND_ONLY = """
create trigger {table}_rows before update or delete on tasks_app_{table}
  for each row execute function fd_append_only();
create trigger {table}_truncate before truncate on tasks_app_{table}
  for each statement execute function fd_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0020_schedules"),
    ]

    operations = [
        migrations.CreateModel(
            name="ApprovalNote",
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
                            ("comment", "Comment"),
                            ("claim", "Claimed"),
                            ("release", "Released"),
                            ("reassign", "Reassigned"),
                        ],
                        max_length=8,
                    ),
                ),
                ("actor", models.CharField(max_length=80)),
                ("actor_name", models.CharField(max_length=160)),
                ("to", models.CharField(blank=True, max_length=80)),
                ("to_name", models.CharField(blank=True, max_length=160)),
                ("body", models.TextField(blank=True)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["id"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="DecisionBatch",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "verdict",
                    models.CharField(choices=[("approve", "Approve"), ("reject", "Reject")], max_length=8),
                ),
                ("comment", models.TextField(blank=True)),
                ("shown", models.JSONField()),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["-id"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="DecisionBatchItem",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("approval", models.UUIDField()),
                ("code", models.CharField(blank=True, max_length=20)),
                ("message", models.TextField(blank=True)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["id"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Delegation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("made_by", models.CharField(max_length=80)),
                ("made_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("ended_by", models.CharField(blank=True, max_length=80)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["-starts_at", "id"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="LinkUse",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("nonce", models.UUIDField(unique=True)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["id"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="TeamWebhook",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("url", encrypted_fields.fields.EncryptedCharField(editable=False, max_length=1000)),
                ("host", models.CharField(editable=False, max_length=253)),
                (
                    "level",
                    models.CharField(
                        choices=[("info", "Info"), ("warning", "Warning"), ("alarm", "Alarm")],
                        default="info",
                        max_length=8,
                        verbose_name="from level",
                    ),
                ),
                ("active", models.BooleanField(default=True)),
                (
                    "allow_private",
                    models.BooleanField(default=False, help_text="May live on a private address."),
                ),
                ("changed_by", models.CharField(editable=False, max_length=80)),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("sent_at", models.DateTimeField(editable=False, null=True)),
                ("failed_at", models.DateTimeField(editable=False, null=True)),
                ("failure", models.CharField(blank=True, editable=False, max_length=200)),
            ],
            options={
                "ordering": ["team__name"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="TeamWebhookSent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="approval",
            name="claimed_by",
            field=models.CharField(blank=True, max_length=80),
        ),
        migrations.AddField(
            model_name="approval",
            name="claimed_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="replaces",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="replaced_by",
                to="tasks_app.approval",
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="on_behalf_of",
            field=models.CharField(blank=True, max_length=80),
        ),
        migrations.AddField(
            model_name="decision",
            name="on_behalf_of_name",
            field=models.CharField(blank=True, max_length=160),
        ),
        migrations.AddField(
            model_name="notification",
            name="person",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(
                condition=models.Q(("person__isnull", False)),
                fields=["person", "-id"],
                name="notification_by_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(
                condition=models.Q(("on_behalf_of", ""), _negated=True),
                fields=("approval", "on_behalf_of"),
                name="one_decision_on_behalf_of_each",
            ),
        ),
        migrations.AddField(
            model_name="approvalnote",
            name="approval",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="notes", to="tasks_app.approval"
            ),
        ),
        migrations.AddField(
            model_name="decisionbatch",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="decisionbatchitem",
            name="batch",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="items",
                to="tasks_app.decisionbatch",
            ),
        ),
        migrations.AddField(
            model_name="delegation",
            name="delegate",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="delegations_held",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="delegation",
            name="delegator",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="delegations_given",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="linkuse",
            name="approval",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tasks_app.approval"
            ),
        ),
        migrations.AddField(
            model_name="linkuse",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="teamwebhook",
            name="team",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT, related_name="webhook", to="tasks_app.team"
            ),
        ),
        migrations.AddField(
            model_name="teamwebhooksent",
            name="notification",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="tasks_app.notification"
            ),
        ),
        migrations.AddConstraint(
            model_name="decisionbatchitem",
            constraint=models.UniqueConstraint(fields=("batch", "approval"), name="batch_item_once"),
        ),
        migrations.AddIndex(
            model_name="delegation",
            index=models.Index(fields=["delegate", "ends_at"], name="delegation_held"),
        ),
        migrations.AddIndex(
            model_name="delegation",
            index=models.Index(fields=["delegator", "ends_at"], name="delegation_given"),
        ),
        migrations.AddConstraint(
            model_name="delegation",
            constraint=models.CheckConstraint(
                condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="delegation_lasts"
            ),
        ),
        migrations.AddConstraint(
            model_name="delegation",
            constraint=models.CheckConstraint(
                condition=models.Q(("delegator", models.F("delegate")), _negated=True),
                name="delegation_to_another",
            ),
        ),
        *(
            migrations.RunSQL(_APPEND_ONLY.format(table=table), migrations.RunSQL.noop)
            for table in ("approvalnote", "decisionbatchitem", "linkuse")
        ),
    ]
