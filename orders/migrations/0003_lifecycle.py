"""The one way a deal changes its status."""

from django.db import migrations

from tasks_app.lifecycle.install import create_sequence, install_move


class Migration(migrations.Migration):
    dependencies = [("orders", "0002_initial"), ("tasks_app", "0002_lifecycle")]
    operations = [install_move("deal", "orders_deal"), create_sequence("fd_ref_deal")]
