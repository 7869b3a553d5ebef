"""PostgreSQL refuses every undeclared or unaudited status change of a deal."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement


class Migration(migrations.Migration):
    dependencies = [("orders", "0004_request_key"), ("tasks_app", "0004_enforcement")]
    operations = [install_enforcement("deal", "orders_deal", "quoted")]
