"""Sellers that came with an import and were switched on before that made them be asked what they can do."""

from django.db import migrations
from django.utils import timezone


def ask(apps, schema_editor):
    never = {"active": True, "capabilities_at": None, "capabilities_next_at": None}
    apps.get_model("tasks_app", "Seller").objects.filter(**never).update(capabilities_next_at=timezone.now())


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0070_born_as_questions")]
    operations = [migrations.RunPython(ask, migrations.RunPython.noop, elidable=True)]
