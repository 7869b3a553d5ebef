"""Functions of deals that run as their owner name the schema of whatever they touch."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_move


class Migration(migrations.Migration):
    dependencies = [("orders", "0011_search"), ("tasks_app", "0028_definers")]
    operations = [install_move("deal", "orders_deal"), install_enforcement("deal", "orders_deal", "quoted")]
