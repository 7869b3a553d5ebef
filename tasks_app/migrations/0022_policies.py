"""Approval policies with their versions, exchange rates, escalations; what an approval keeps of them."""

import datetime

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import tasks_app.ids

# Versions, rates and escalations stay as they were written.
_APPEND_ONLY = """
do $$ begin
  if exists (select from pg_roles where rolname = 'flightdeck_app') then
    revoke update, delete, truncate
      on tasks_app_approvalpolicy, tasks_app_exchangerate, tasks_app_approvalescalation from flightdeck_app;
  end if;
end $$;
"""
_MONEY = ["deal", "deal_change", "booked_differently", "late_completion"]
_DEFAULTS = [
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


def defaults_add(apps, _editor):
    model = apps.get_model("tasks_app", "ApprovalPolicy")
    for said in _DEFAULTS:
        model.objects.create(actor="system", reason="Comes with Flightdeck", **said)


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0021_steps_together"),
    ]

    operations = [
        migrations.CreateModel(
            name="ApprovalEscalation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField()),
                ("roles", models.JSONField(default=list)),
                ("due_before", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("note", models.TextField()),
            ],
            options={
                "ordering": ["id"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="ApprovalPolicy",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("key", models.SlugField(max_length=60)),
                ("version", models.PositiveIntegerField(default=1)),
                ("name", models.CharField(max_length=80)),
                ("active", models.BooleanField(default=True)),
                ("kinds", models.JSONField(default=list)),
                (
                    "rule",
                    models.CharField(
                        choices=[
                            ("always", "Every one of these questions"),
                            ("amount", "An amount at or over a limit"),
                            ("first_order", "The first order with a seller"),
                            ("sensitive", "A sensitive category"),
                            ("manual", "Manual inventory"),
                            ("change", "A change of an approved amount"),
                            ("splitting", "An order split to stay under a limit"),
                        ],
                        max_length=12,
                    ),
                ),
                ("limit", models.DecimalField(blank=True, decimal_places=4, max_digits=18, null=True)),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("percent", models.DecimalField(blank=True, decimal_places=2, max_digits=7, null=True)),
                ("categories", models.JSONField(blank=True, default=list)),
                ("gap_days", models.PositiveSmallIntegerField(default=1)),
                ("roles", models.JSONField(blank=True, default=list)),
                ("quorum", models.PositiveSmallIntegerField(default=1)),
                ("deadline", models.DurationField(blank=True, null=True)),
                ("business_hours", models.BooleanField(default=False)),
                ("escalate_after", models.DurationField(blank=True, null=True)),
                ("escalate_to", models.CharField(blank=True, max_length=80)),
                (
                    "on_expiry",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "Leave it to the other policies"),
                            ("expire", "It ends without approval"),
                            ("wait", "It keeps waiting, and is escalated"),
                        ],
                        default="",
                        max_length=6,
                    ),
                ),
                ("actor", models.CharField(editable=False, max_length=80)),
                ("at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("reason", models.CharField(max_length=500)),
                ("request", models.CharField(blank=True, editable=False, max_length=64)),
                ("changes", models.JSONField(default=dict, editable=False)),
            ],
            options={
                "verbose_name_plural": "approval policies",
                "ordering": ["name", "key", "-version"],
                "permissions": [("manage_policies", "May change approval policies and exchange rates")],
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="ExchangeRate",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("currency", models.CharField(max_length=3)),
                ("day", models.DateField()),
                (
                    "usd",
                    models.DecimalField(decimal_places=10, max_digits=18, verbose_name="one unit in USD"),
                ),
                ("source", models.CharField(max_length=120)),
                ("actor", models.CharField(editable=False, max_length=80)),
                ("at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                "ordering": ["-day", "currency", "-id"],
                "default_permissions": ("view",),
            },
        ),
        migrations.AddField(
            model_name="advertiser",
            name="policy_categories",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="approval",
            name="escalate_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="escalate_to",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="approval",
            name="escalated_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="hold_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="on_expiry",
            field=models.CharField(default="expire", max_length=6),
        ),
        migrations.AddField(
            model_name="approval",
            name="policies",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="approval",
            name="roles",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="notification",
            name="roles",
            field=models.JSONField(default=list),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(
                    ("escalate_at__isnull", False), ("escalated_at__isnull", True), ("status", "open")
                ),
                fields=["escalate_at"],
                name="approval_escalates",
            ),
        ),
        migrations.AddField(
            model_name="approvalescalation",
            name="approval",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="escalations",
                to="tasks_app.approval",
            ),
        ),
        migrations.AddField(
            model_name="approvalpolicy",
            name="advertiser",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tasks_app.advertiser",
            ),
        ),
        migrations.AddField(
            model_name="approvalpolicy",
            name="team",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tasks_app.team",
            ),
        ),
        migrations.AddIndex(
            model_name="exchangerate",
            index=models.Index(fields=["currency", "-day", "-id"], name="rate_latest"),
        ),
        migrations.AddConstraint(
            model_name="approvalpolicy",
            constraint=models.UniqueConstraint(fields=("key", "version"), name="policy_version_once"),
        ),
        migrations.AddConstraint(
            model_name="approvalpolicy",
            constraint=models.CheckConstraint(condition=models.Q(("quorum__gte", 1)), name="policy_quorum"),
        ),
        migrations.AddConstraint(
            model_name="approvalpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("deadline__isnull", True), ("deadline__gt", datetime.timedelta(0)), _connector="OR"
                ),
                name="policy_deadline",
            ),
        ),
        migrations.RunPython(defaults_add, migrations.RunPython.noop),
        migrations.RunSQL(_APPEND_ONLY, migrations.RunSQL.noop),
    ]
