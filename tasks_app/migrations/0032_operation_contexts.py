"""The conversation that a seller speaking MCP names is kept and found."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0031_waiting_deliveries"),
    ]

    operations = [
        migrations.AddField(
            model_name="operation",
            name="context_id",
            field=models.CharField(blank=True, max_length=255),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("context_id", ""), _negated=True),
                fields=["context_id"],
                name="operation_by_context",
            ),
        ),
    ]
