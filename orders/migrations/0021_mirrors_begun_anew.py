"""What a seller keeps saying in readings of its state is believed, and what only older news shows is asked
about."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0020_accepted")]
    operations = [
        migrations.AddField(
            model_name="dealmirror",
            name="shown_late",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="dealmirror",
            name="older_reads",
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="dealmirror",
            name="older_asked_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="dealmirror",
            name="older_revision",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="dealmirror",
            name="restarted",
            field=models.TextField(blank=True),
        ),
    ]
