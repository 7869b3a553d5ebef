"""What moves or is noted changes the columns that are named for it, and no other."""

from django.db import migrations

from tasks_app.lifecycle.install import (
    install_changes,
    install_enforcement,
    install_move,
)


class Migration(migrations.Migration):
    dependencies = [("orders", "0016_mirror_failures"), ("tasks_app", "0050_named_changes")]
    operations = [
        install_changes(
            "deal",
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
            noted=["start_at", "end_at", "differences", "differs"],
        ),
        install_move("deal", "orders_deal"),
        install_enforcement("deal", "orders_deal", "quoted"),
    ]
