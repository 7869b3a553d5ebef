"""A word on several questions is kept as an intent, with what was shown, until it can no longer be undone."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0039_seller_priority"),
    ]

    operations = [
        migrations.AddField(
            model_name="decisionbatch",
            name="digests",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="decisionbatch",
            name="done_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="decisionbatch",
            name="due_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="decisionbatch",
            name="on_behalf_of",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="decisionbatch",
            name="request",
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name="decisionbatch",
            name="withdrawn_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="decisionbatchitem",
            name="status",
            field=models.CharField(blank=True, max_length=8),
        ),
        migrations.AddIndex(
            model_name="decisionbatch",
            index=models.Index(
                condition=models.Q(
                    ("done_at__isnull", True), ("due_at__isnull", False), ("withdrawn_at__isnull", True)
                ),
                fields=["due_at"],
                name="intent_due",
            ),
        ),
    ]
