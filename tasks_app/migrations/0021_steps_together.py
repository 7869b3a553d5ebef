"""Short steps are completed and claimed several in one call; events of a job lock its row no more."""

import django.db.models.deletion
from django.db import migrations, models

from tasks_app.lifecycle.install import install_steps


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0020_schedules"),
    ]

    operations = [
        migrations.AlterField(
            model_name="workflowevent",
            name="job",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="events",
                to="tasks_app.job",
            ),
        ),
        install_steps(),
    ]
