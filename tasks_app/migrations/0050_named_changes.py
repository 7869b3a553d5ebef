"""What moves or is noted changes the columns that are named for it, and no other."""

from django.db import migrations

from tasks_app.lifecycle.install import (
    install_changes,
    install_enforcement,
    install_enforcement_shared,
    install_move,
)


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0049_done_anew")]
    operations = [
        install_enforcement_shared(),
        install_changes("approval", moved=[], noted=[]),
        install_move("approval", "tasks_app_approval"),
        install_enforcement("approval", "tasks_app_approval", "open"),
        install_changes("job", moved=["outputs", "error", "expires_at", "ended_at"], noted=[]),
        install_move("job", "tasks_app_job"),
        install_enforcement("job", "tasks_app_job", "PENDING"),
        install_changes(
            "operation",
            moved=[
                "task_id",
                "context_id",
                "a2a_task_id",
                "a2a_context_id",
                "message",
                "result",
                "error",
                "seller_news_at",
                "settled_by",
                "settled_at",
                "sent_at",
                "overdue_at",
                "published_at",
                "publish_at",
                "overdue_told_at",
                "send_at",
                "next_poll_at",
                "deadline_at",
                "attempts",
                "polls",
            ],
            noted=["result", "error", "publish_at", "next_poll_at"],
        ),
        install_move("operation", "tasks_app_operation"),
        install_enforcement("operation", "tasks_app_operation", "requested"),
        install_changes(
            "step",
            moved=[
                "ready_at",
                "attempts",
                "failures",
                "lease_until",
                "skipped",
                "waiting_for",
                "outputs",
                "error",
                "started_at",
                "ended_at",
            ],
            noted=[],
        ),
        install_move("step", "tasks_app_step"),
        install_enforcement("step", "tasks_app_step", "received"),
    ]
