"""Ends that came without their result: what an observation proves, and until when publication waits."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0009_audit_inserts")]

    operations = [
        migrations.AddField(
            model_name="observation",
            name="partial",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="operation",
            name="publish_at",
            field=models.DateTimeField(null=True),
        ),
    ]
