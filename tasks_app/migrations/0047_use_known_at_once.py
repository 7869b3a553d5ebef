"""An operation's seller and account are held from its insertion on, not only from its commit: whether they are in
use is then known while it is being made."""

from django.db import migrations

# The names of Django's foreign keys end in a hash: they are found by what they tie together.
_ALTER = """
do $$
declare c record;
begin
  for c in select conname from pg_constraint
            where contype = 'f' and conrelid = 'public.tasks_app_operation'::regclass
              and confrelid in ('public.tasks_app_seller'::regclass, 'public.tasks_app_account'::regclass)
  loop
    execute format('alter table public.tasks_app_operation alter constraint %I {how}', c.conname);
  end loop;
end $$
"""


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0046_approval_set_off_by")]
    operations = [
        migrations.RunSQL(
            _ALTER.replace("{how}", "not deferrable"),
            _ALTER.replace("{how}", "deferrable initially deferred"),
        )
    ]
