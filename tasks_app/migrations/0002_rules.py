"""Triggers and functions (`sql/`), those of each entity's status, and the first rows."""

from pathlib import Path

from django.db import migrations

from tasks_app.lifecycle.install import create_sequence, install_entity, install_sql

_SQL = Path(__file__).parent / "sql"
_MONEY = ["deal", "deal_change", "booked_differently", "unclaimed"]
_POLICIES = [
    {
        "key": "every-recommendation",
        "name": "Every recommendation, one approver",
        "rule": "always",
        "kinds": ["deal"],
        "quorum": 1,
    },
    {
        "key": "over-100000-usd",
        "name": "Over 100,000 USD, two approvers",
        "rule": "amount",
        "kinds": _MONEY,
        "limit": 100_000,
        "currency": "USD",
        "quorum": 2,
    },
    {
        "key": "split-over-100000-usd",
        "name": "Split orders over 100,000 USD, two approvers",
        "rule": "splitting",
        "kinds": ["deal", "deal_change"],
        "limit": 100_000,
        "currency": "USD",
        "quorum": 2,
    },
]


def first_rows(apps, _editor):
    actors = apps.get_model("tasks_app", "Actor").objects
    actors.create(key="system", kind="system", name="System")
    actors.create(key="agent:assistant", kind="agent", name="Assistant")
    policies = apps.get_model("tasks_app", "ApprovalPolicy").objects
    for policy in _POLICIES:
        policies.create(actor="system", reason="Comes with Flightdeck", **policy)


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0001_initial")]
    operations = [
        *(
            install_sql(_SQL / f"{name}.sql")
            for name in ("columns", "shared", "trail", "events", "people", "webhooks", "retention")
        ),
        *(create_sequence(f"fd_ref_{name}") for name in ("approval", "conflict", "job", "operation")),
        *install_entity("approval", "tasks_app_approval", noted=["set_off_by"]),
        *install_entity("job", "tasks_app_job", moved=["outputs", "error", "expires_at", "ended_at"]),
        *install_entity(
            "operation",
            "tasks_app_operation",
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
        *install_entity(
            "step",
            "tasks_app_step",
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
        ),
        *install_entity("assistant_turn", "tasks_app_assistantturn", moved=["error", "ended_at"]),
        *(install_sql(_SQL / f"{name}.sql") for name in ("operations", "approvals", "steps")),
        migrations.RunPython(first_rows, migrations.RunPython.noop),
    ]
