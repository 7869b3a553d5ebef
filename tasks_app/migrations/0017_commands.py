import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0016_leases_unindexed"),
    ]

    operations = [
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
                fields=["seller", "share", "turn_at"],
                name="operation_turns",
                condition=models.Q(("send_at__isnull", False), ("share__isnull", False)),
            ),
        ),
    ]
