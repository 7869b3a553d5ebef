"""Entries of deals are written by the database's own functions alone, as those of every other entity."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_move


class Migration(migrations.Migration):
    dependencies = [("orders", "0006_lean_moves"), ("tasks_app", "0009_audit_inserts")]
    operations = [install_move("deal", "orders_deal"), install_enforcement("deal", "orders_deal", "quoted")]
