"""A move from a status to itself is none."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement


class Migration(migrations.Migration):
    dependencies = [("orders", "0025_differs_at"), ("tasks_app", "0073_moves_lead_somewhere")]
    operations = [install_enforcement("deal", "orders_deal", "quoted")]
