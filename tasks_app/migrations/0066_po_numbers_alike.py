"""Purchases are found by a purchase-order number that looks like theirs, however many an account has."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from tasks_app.alike import alike_digest

_AT_ONCE = 2000


def fill(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    model = apps.get_model("tasks_app", "Operation")
    bought = model.objects.filter(task_type="create_media_buy", request__has_key="po_number", po_alike="")
    rows = bought.order_by("pk").only("pk", "request")
    last = None
    while batch := list((rows.filter(pk__gt=last) if last else rows)[:_AT_ONCE]):
        for row in batch:
            row.po_alike = alike_digest(row.request["po_number"])
        model.objects.bulk_update(batch, ["po_alike"])
        last = batch[-1].pk


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0065_resolved_and_born_told")]
    operations = [
        migrations.AddField(
            model_name="operation",
            name="po_alike",
            field=models.CharField(blank=True, default="", editable=False, max_length=64),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("po_alike", ""), _negated=True),
                fields=["account", "po_alike"],
                name="operation_po_alike",
            ),
        ),
        # Last: what it changes is checked at commit, and a table with such a check to come is not altered.
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
