"""Health of sellers: evidence on observations, indexes, the pause of webhooks. Notifications as events, by mail."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

# That somebody was told something is an event too: whoever passes it on (e-mail) is retried by the bus. A
# function, so that the application's role needs no right of its own to write events.
_TELL = """
create function fd_tell(p_id uuid, p_at timestamptz) returns void
language sql security definer set search_path from current as $$
  insert into tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
  values ('notification.told', 'notification', p_id, 1, '{}', p_at)
$$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0012_steering"),
    ]

    operations = [
        migrations.CreateModel(
            name="NotificationMail",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(
                condition=models.Q(("team__isnull", True)),
                fields=["right", "-id"],
                name="notification_by_right",
            ),
        ),
        migrations.AddField(
            model_name="observation",
            name="duration_ms",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="observation",
            name="error_code",
            field=models.CharField(blank=True, max_length=80),
        ),
        migrations.AddField(
            model_name="observation",
            name="seller",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="tasks_app.seller",
            ),
        ),
        migrations.AddField(
            model_name="seller",
            name="webhook_checked_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="seller",
            name="webhook_judged_since",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="seller",
            name="webhook_paused_until",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="user",
            name="mail_notifications",
            field=models.BooleanField(
                default=False,
                help_text="One e-mail for each notification.",
                verbose_name="e-mail notifications",
            ),
        ),
        migrations.AddIndex(
            model_name="observation",
            index=models.Index(
                condition=models.Q(("duration_ms__isnull", False)),
                fields=["seller", "-id"],
                name="observation_of_call",
            ),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("settled_at__isnull", False)),
                fields=["seller", "-settled_at"],
                name="operation_settled",
            ),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("settled_by__in", ("poll", "webhook", "reconcile"))),
                fields=["seller", "task_type", "-settled_at"],
                name="operation_settled_later",
            ),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(
                    ("settled_by__in", ("poll", "webhook", "reconcile")), ("webhook_token__isnull", False)
                ),
                fields=["seller", "-settled_at"],
                name="operation_hooked",
            ),
        ),
        migrations.AddField(
            model_name="notificationmail",
            name="notification",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="tasks_app.notification"),
        ),
        migrations.AddField(
            model_name="notificationmail",
            name="user",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name="notificationmail",
            constraint=models.UniqueConstraint(fields=("notification", "user"), name="mailed_once"),
        ),
        migrations.RunSQL(_TELL, "drop function fd_tell(uuid, timestamptz)"),
    ]
