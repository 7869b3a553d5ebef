"""A deal's account is held from the deal's insertion on, not only from its commit: whether it is in use is then known
while the deal is being put forward."""

from django.db import migrations

_ALTER = """
do $$
declare c record;
begin
  for c in select conname from pg_constraint
            where contype = 'f' and conrelid = 'public.orders_deal'::regclass
              and confrelid = 'public.tasks_app_account'::regclass
  loop
    execute format('alter table public.orders_deal alter constraint %I {how}', c.conname);
  end loop;
end $$
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0014_lines_with_their_deal"), ("tasks_app", "0047_use_known_at_once")]
    operations = [
        migrations.RunSQL(
            _ALTER.replace("{how}", "not deferrable"),
            _ALTER.replace("{how}", "deferrable initially deferred"),
        )
    ]
