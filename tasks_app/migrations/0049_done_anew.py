"""A retried step knows that it is done anew, the steps before it are found by an index, and a fan-out of which
people skipped an item ends apart."""

from django.db import migrations, models

from tasks_app.lifecycle.install import install_steps


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0048_rows_put_back")]
    operations = [
        migrations.AddField(
            model_name="step",
            name="anew",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddIndex(
            model_name="step",
            index=models.Index(
                condition=models.Q(("lineage__isnull", False)), fields=["lineage"], name="step_chain"
            ),
        ),
        install_steps(),
    ]
