"""A job's priority reaches its sellers' slots; a dead worker's step goes by its own priority."""

from django.db import migrations, models

from tasks_app.lifecycle.install import install_steps


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0038_unclear"),
    ]

    operations = [
        migrations.AddField(
            model_name="operation",
            name="priority",
            field=models.PositiveSmallIntegerField(default=100),
        ),
        install_steps(),
    ]
