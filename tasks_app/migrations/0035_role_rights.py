"""The application's role writes only what it needs: events are numbered and forgotten by functions of the owner,
what was frozen, decided or came to its end stays, decisions and notes stand in the trail."""

from django.db import migrations

from tasks_app.lifecycle.install import (
    install_audit,
    install_enforcement,
    install_enforcement_shared,
    install_kept,
    install_move,
)


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0034_seller_settings")]
    operations = [
        install_audit(),
        install_enforcement_shared(),
        install_move("operation", "tasks_app_operation"),
        install_move("approval", "tasks_app_approval"),
        install_move("job", "tasks_app_job"),
        install_move("step", "tasks_app_step"),
        install_enforcement("operation", "tasks_app_operation", "requested"),
        install_enforcement("approval", "tasks_app_approval", "open"),
        install_enforcement("job", "tasks_app_job", "PENDING"),
        install_enforcement("step", "tasks_app_step", "received"),
        install_kept(),
    ]
