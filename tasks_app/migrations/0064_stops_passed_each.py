"""A command passes the turns of the kill switch that people were shown, and no other."""

from django.db import migrations

from tasks_app.lifecycle.install import install_kept


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0063_told_as_changed")]
    operations = [install_kept()]
