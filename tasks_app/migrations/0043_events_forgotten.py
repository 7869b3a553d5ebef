"""Events are forgotten as far as every subscriber has come, which the owner's function reads for itself."""

from django.db import migrations

from tasks_app.lifecycle.install import install_kept


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0042_asked_as_decided")]
    operations = [install_kept()]
