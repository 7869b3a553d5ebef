"""What waited before this version goes on as what waits since: what people let pass is not carried into the
round that is asked, and steps that wait for an account look at their deal's flight. What a given-up operation came to is kept."""

from django.db import migrations
from django.utils import timezone

from tasks_app.lifecycle.install import install_kept

_ASLEEP = ("awaiting_tool", "awaiting_user")


def passed_before(apps, schema_editor):
    waiting = apps.get_model("tasks_app", "Command").objects.filter(waiting_since__isnull=False)
    waiting.exclude(overrides=[]).update(overrides=[])


def looks(apps, schema_editor):
    asleep = apps.get_model("tasks_app", "Step").objects.filter(status__in=_ASLEEP, ready_at=None)
    asleep.filter(waiting_for__type="account").update(ready_at=timezone.now())


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0077_nothing_passed_into_the_next_round")]
    operations = [
        install_kept(),
        migrations.RunPython(passed_before, migrations.RunPython.noop, elidable=True),
        migrations.RunPython(looks, migrations.RunPython.noop, elidable=True),
    ]
