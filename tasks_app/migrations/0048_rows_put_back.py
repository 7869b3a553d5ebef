"""Rows that are put back; counters that a seller cannot fill; turns of the kill switch in the database's order."""

from django.db import migrations, models

import tasks_app.ids

# The turns are append-only since 0019, for everybody; they get their numbers once.
_NUMBERED = """
alter table tasks_app_killswitch add column turn bigint;
alter table tasks_app_killswitch disable trigger killswitch_rows;
update tasks_app_killswitch k set turn = n.turn
  from (select id, row_number() over (order by id) as turn from tasks_app_killswitch) n where n.id = k.id;
alter table tasks_app_killswitch enable trigger killswitch_rows;
alter table tasks_app_killswitch alter column turn set not null,
  alter column turn add generated always as identity;
select setval(pg_get_serial_sequence('tasks_app_killswitch', 'turn'),
              (select coalesce(max(turn), 0) + 1 from tasks_app_killswitch), false);
"""


def _counter(model, name="attempts"):
    return migrations.AlterField(model_name=model, name=name, field=models.PositiveIntegerField(default=0))


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0047_use_known_at_once")]
    operations = [
        migrations.CreateModel(
            name="RowTrouble",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("work", models.CharField(max_length=40)),
                ("row", models.UUIDField()),
                ("times", models.PositiveIntegerField(default=1)),
                ("error", models.CharField(max_length=500)),
                ("first_at", models.DateTimeField()),
                ("at", models.DateTimeField()),
                ("again_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [models.UniqueConstraint(fields=("work", "row"), name="trouble_once_per_row")],
            },
        ),
        migrations.CreateModel(
            name="SweepPulse",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
            ],
        ),
        _counter("operation"),
        _counter("step"),
        _counter("step", "failures"),
        _counter("eventdelivery"),
        _counter("secondfactor", "failures"),
        migrations.AlterField(
            model_name="continuation", name="generation", field=models.PositiveIntegerField()
        ),
        migrations.RemoveIndex(model_name="killswitch", name="kill_switch_latest"),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(_NUMBERED, "alter table tasks_app_killswitch drop column turn")
            ],
            state_operations=[
                migrations.AddField(
                    model_name="killswitch",
                    name="turn",
                    field=models.BigIntegerField(db_default=0, editable=False),
                )
            ],
        ),
        migrations.AlterModelOptions(
            name="killswitch",
            options={
                "ordering": ["-turn"],
                "permissions": [("turn_kill_switch", "May stop commands, and let them go on")],
                "verbose_name_plural": "kill switch",
            },
        ),
        migrations.AddIndex(
            model_name="killswitch",
            index=models.Index(fields=["team", "-turn"], name="kill_switch_latest"),
        ),
    ]
