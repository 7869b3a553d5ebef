"""Answers to sellers that left say no more of themselves than what is not known; those that people released,
and that nothing keeps, are due."""

from django.db import migrations
from django.db.models import Exists, OuterRef, Value
from django.db.models.functions import Replace
from django.utils import timezone

_LEFT = "the answer left; "
_PENDING = ("submitted", "working", "input_required", "auth_required")


def said_shortly(apps, schema_editor):
    pauses = apps.get_model("tasks_app", "Continuation").objects.filter(note__startswith=_LEFT)
    pauses.update(note=Replace("note", Value(_LEFT), Value("")))


def due(apps, schema_editor):
    operations = apps.get_model("tasks_app", "Operation").objects.filter(status__in=_PENDING)
    pauses = apps.get_model("tasks_app", "Continuation").objects.filter(operation=OuterRef("pk"))
    ended = {"dispatched_at": None, "consumed_at": None, "stale_at": None}
    answered = pauses.filter(released_at__isnull=False, **ended)
    gates = apps.get_model("tasks_app", "Command").objects.filter(waiting_since__isnull=False)
    own = gates.filter(subject_type="operation", subject_id=OuterRef("pk"))
    orders = gates.filter(key=OuterRef("purpose"))
    stranded = operations.filter(Exists(answered), ~Exists(own), ~Exists(orders), send_at=None)
    stranded.update(send_at=timezone.now())


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0074_leases_by_id")]
    operations = [
        migrations.RunPython(said_shortly, migrations.RunPython.noop, elidable=True),
        migrations.RunPython(due, migrations.RunPython.noop, elidable=True),
    ]
