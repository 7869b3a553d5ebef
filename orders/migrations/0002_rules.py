"""Triggers and numbers of deals and their lines (`sql/`)."""

from pathlib import Path

from django.db import migrations

from tasks_app.lifecycle.install import create_sequence, install_entity, install_sql


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial"), ("tasks_app", "0002_rules")]
    operations = [
        create_sequence("fd_ref_deal"),
        *install_entity(
            "deal",
            "orders_deal",
            moved=[
                "media_buy_id",
                "media_buy_status",
                "revision",
                "valid_actions",
                "confirmed_at",
                "creative_deadline",
                "as_of",
                "differs",
            ],
            noted=["start_at", "end_at", "differences", "differs", "unapproved"],
        ),
        install_sql(Path(__file__).parent / "sql" / "deal_lines.sql"),
    ]
