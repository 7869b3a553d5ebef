"""Steps are taken by lane."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0016_leases_unindexed")]

    operations = [
        migrations.AddField(
            model_name="step",
            name="lane",
            field=models.CharField(
                choices=[("recipes", "Recipes"), ("background", "Background")],
                default="recipes",
                max_length=20,
            ),
        ),
        migrations.RemoveIndex(model_name="step", name="step_ready"),
        migrations.AddIndex(
            model_name="step",
            index=models.Index(
                condition=models.Q(("ready_at__isnull", False)),
                fields=["lane", "priority", "ready_at", "id"],
                name="step_ready",
            ),
        ),
    ]
