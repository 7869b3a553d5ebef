"""Short steps are claimed along only behind a short one."""

from django.db import migrations

from tasks_app.lifecycle.install import install_steps


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0051_rights_told")]
    operations = [install_steps()]
