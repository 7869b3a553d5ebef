"""How a contradiction was resolved is what people decided, and stays; a seller or an account is added with its entry
in the security log."""

from django.db import migrations

from tasks_app.lifecycle.install import install_kept


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0064_stops_passed_each")]
    operations = [install_kept()]
