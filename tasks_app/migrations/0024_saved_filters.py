"""Saved filters, and what the global search looks up. The indexes are built beside running work: outside a
transaction, so the table comes last."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.contrib.postgres.indexes import OpClass
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Upper

import tasks_app.ids


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tasks_app", "0023_deciding")]
    operations = [
        AddIndexConcurrently(
            model_name="account",
            index=models.Index(KeyTransform("account_id", "reference"), name="account_by_seller_id"),
        ),
        AddIndexConcurrently(
            model_name="advertiser",
            index=models.Index(OpClass(Upper("name"), name="text_pattern_ops"), name="advertiser_by_name"),
        ),
        AddIndexConcurrently(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("a2a_task_id", ""), _negated=True),
                fields=["a2a_task_id"],
                name="operation_a2a_task",
            ),
        ),
        AddIndexConcurrently(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("a2a_context_id", ""), _negated=True),
                fields=["a2a_context_id"],
                name="operation_a2a_context",
            ),
        ),
        AddIndexConcurrently(
            model_name="operation",
            index=models.Index(
                KeyTransform("po_number", "request"),
                condition=models.Q(("task_type", "create_media_buy")),
                name="operation_po_number",
            ),
        ),
        migrations.CreateModel(
            name="SavedFilter",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_filters",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tasks_app.team",
                    ),
                ),
                ("page", models.CharField(max_length=60)),
                ("name", models.CharField(max_length=60)),
                ("query", models.CharField(max_length=1000)),
                ("is_default", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["name", "id"],
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        condition=models.Q(("team__isnull", False)),
                        fields=["team", "page"],
                        name="saved_filter_shared",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "page", "name"), name="saved_filter_name_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("is_default", True)),
                        fields=("owner", "page"),
                        name="saved_filter_one_default",
                    ),
                ],
            },
        ),
    ]
