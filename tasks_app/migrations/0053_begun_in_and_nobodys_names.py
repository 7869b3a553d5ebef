"""A second factor that was begun says in which session; what was typed as the name of nobody is masked."""

from typing import Any

from django.db import migrations, models


def nobodys_forget(apps: Any, schema_editor: Any) -> None:
    """Names of nobody that were kept as typed may be passwords."""
    known = apps.get_model("tasks_app", "User").objects.values("username")
    for model in ("AccessAttempt", "AccessFailureLog"):
        apps.get_model("axes", model).objects.exclude(username__in=known).delete()


def unconfirmed_forget(apps: Any, schema_editor: Any) -> None:
    """Nobody knows who was shown their secret."""
    apps.get_model("tasks_app", "SecondFactor").objects.filter(confirmed_at__isnull=True).delete()


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0052_short_behind_short"), ("axes", "0010_accessattemptexpiration")]
    operations = [
        migrations.AddField(
            model_name="secondfactor",
            name="begun_in",
            field=models.CharField(default="", editable=False, max_length=64),
            preserve_default=False,
        ),
        migrations.RunPython(nobodys_forget, migrations.RunPython.noop),
        migrations.RunPython(unconfirmed_forget, migrations.RunPython.noop),
    ]
