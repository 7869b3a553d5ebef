"""Leases have no index by seller: a claim reads all of them anyway, to leave out what is out, and writes hundreds."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0073_moves_lead_somewhere")]
    operations = [migrations.RemoveIndex(model_name="calllease", name="lease_by_seller")]
