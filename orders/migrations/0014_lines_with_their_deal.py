"""A deal's lines come in the transaction that its row comes in, and none later, not even before it has moved."""

from django.db import migrations, models

_LINES = """
-- The transaction a deal came in, by its number and its beginning; nobody states it for himself. A number alone
-- would come again in a database that was restored elsewhere.
create or replace function public.fd_this_transaction() returns text language sql stable as $$
  select pg_catalog.pg_current_xact_id()::text || ' ' || extract(epoch from pg_catalog.transaction_timestamp())
$$;
create or replace function public.fd_deal_born_in() returns trigger language plpgsql as $$
begin
  new.born_in := public.fd_this_transaction();
  return new;
end $$;
create or replace trigger fd_deal_born_in before insert on public.orders_deal
  for each row execute function public.fd_deal_born_in();

-- A line is born with its deal: none is added once people may have been asked about it.
create or replace function public.fd_line_born() returns trigger language plpgsql as $$
begin
  perform 1 from public.orders_deal t
    where t.id = new.deal_id and t.version = 1 and t.born_in = public.fd_this_transaction();
  if not found then
    perform public.fd_refuse('line', 'deal', new.deal_id, '', '', 'lines come with their deal',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0013_role_rights")]
    operations = [
        migrations.AddField(
            model_name="deal",
            name="born_in",
            field=models.CharField(default="", editable=False, max_length=48),
        ),
        migrations.RunSQL(_LINES, migrations.RunSQL.noop),
    ]
