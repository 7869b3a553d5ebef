"""What people let pass in one waiting at gates is not taken into the next."""

from django.db import migrations

from tasks_app.lifecycle.install import install_kept


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0076_rounds_at_gates")]
    operations = [install_kept()]
