"""A question that somebody else held when something happened to its subject is looked at again by the next sweep."""

import django.db.models.deletion
from django.db import migrations, models

import tasks_app.ids


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0066_po_numbers_alike")]
    operations = [
        migrations.CreateModel(
            name="QuestionReview",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("reason", models.CharField(max_length=500)),
                (
                    "approval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reviews",
                        to="tasks_app.approval",
                    ),
                ),
            ],
            options={"default_permissions": ()},
        ),
    ]
