"""The functions of a deal's status changes made anew, as those of every other entity."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_move


class Migration(migrations.Migration):
    dependencies = [("orders", "0005_enforcement"), ("tasks_app", "0006_lean_moves")]
    operations = [install_move("deal", "orders_deal"), install_enforcement("deal", "orders_deal", "quoted")]
