"""Times in which no sweep was at work are kept: a job's own time stands still in them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0059_one_open_conflict")]
    operations = [
        migrations.CreateModel(
            name="SweepOutage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("begun_at", models.DateTimeField()),
                ("over_at", models.DateTimeField(db_index=True)),
            ],
        ),
    ]
