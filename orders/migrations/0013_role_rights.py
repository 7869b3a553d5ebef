"""What was approved of a deal's lines changes with an entry of its deal alone, and lines come with their deal."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_move

_LINES = """
-- Approved columns of a deal's lines (p_lines: [{id, …}]) and of the deal (p_changes), lines that go (p_gone), with
-- the entry that tells what they were. Answers when, null when somebody else changed the deal first.
create or replace function public.fd_deal_amend(
    p_id uuid, p_version int, p_lines jsonb, p_gone uuid[], p_actor text, p_reason text, p_changes jsonb,
    p_trace text, p_at timestamptz) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_before jsonb;
  v_after jsonb;
begin
  perform 1 from public.orders_deal t where t.id = p_id and t.version = p_version for no key update;
  if not found then return null; end if;
  v_before := public.fd_deal_lines(p_id);
  delete from public.orders_dealline where deal_id = p_id and id = any (p_gone);
  update public.orders_dealline l
     set (budget, units, start_at, end_at, targeting) =
         (select r.budget, r.units, r.start_at, r.end_at, r.targeting from jsonb_populate_record(l, e.line) r)
    from jsonb_array_elements(p_lines) e (line) where l.deal_id = p_id and l.id = (e.line ->> 'id')::uuid;
  v_after := public.fd_deal_lines(p_id);
  return public.fd_note_deal(p_id, p_version, p_actor, p_reason,
                             jsonb_build_object('lines', jsonb_build_array(v_before, v_after)), p_changes,
                             p_trace, p_at);
end $$;

-- What is approved of a deal's lines.
create or replace function public.fd_deal_lines(p_id uuid) returns jsonb language sql stable as $$
  select jsonb_agg(jsonb_build_object('line', position, 'budget', budget::text, 'units', units::text,
                                      'start_at', start_at, 'end_at', end_at, 'targeting', targeting)
                   order by position)
    from public.orders_dealline where deal_id = p_id
$$;

-- A line is born with its deal: none is added to one that has moved.
create or replace function public.fd_line_born() returns trigger language plpgsql as $$
begin
  perform 1 from public.orders_deal t where t.id = new.deal_id and t.version = 1;
  if not found then
    perform public.fd_refuse('line', 'deal', new.deal_id, '', '', 'lines come with their deal',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create or replace trigger fd_line_born before insert on public.orders_dealline
  for each row execute function public.fd_line_born();
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0012_definers"), ("tasks_app", "0035_role_rights")]
    operations = [
        install_move("deal", "orders_deal"),
        install_enforcement("deal", "orders_deal", "quoted"),
        migrations.RunSQL(_LINES, migrations.RunSQL.noop),
    ]
