-- Deals and their lines (packages): approved columns of a line change only with an entry of the deal.

-- Change approved columns of a deal's lines (p_lines: [{id, ...}]) and of the deal (p_changes), delete lines (p_gone)
-- and add lines (p_new), with one entry. Returns when; null if somebody else changed the deal first.
create function public.fd_deal_amend(
    p_id uuid, p_version int, p_lines jsonb, p_gone uuid[], p_new jsonb, p_actor text, p_reason text, p_changes jsonb,
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
     set (product_id, pricing_option_id, budget, units, rate, start_at, end_at, targeting, paused, canceled) =
         (select r.product_id, r.pricing_option_id, r.budget, r.units, r.rate, r.start_at, r.end_at, r.targeting,
                 r.paused, r.canceled
            from jsonb_populate_record(l, e.line) r)
    from jsonb_array_elements(p_lines) e (line) where l.deal_id = p_id and l.id = (e.line ->> 'id')::uuid;
  insert into public.orders_dealline
    select r.* from jsonb_array_elements(p_new) e (line),
      jsonb_populate_record(null::public.orders_dealline,
                            '{"forecast": {}, "terms": {}}'::jsonb || e.line || jsonb_build_object('deal_id', p_id)) r;
  v_after := public.fd_deal_lines(p_id);
  return public.fd_note_deal(p_id, p_version, p_actor, p_reason,
                             jsonb_build_object('lines', jsonb_build_array(v_before, v_after)), p_changes,
                             p_trace, p_at);
end $$;

-- The approved columns of all lines of a deal, as the entry stores them.
create function public.fd_deal_lines(p_id uuid) returns jsonb language sql stable as $$
  select jsonb_agg(jsonb_build_object('line', position, 'product_id', product_id,
                                      'pricing_option_id', pricing_option_id, 'budget', budget::text,
                                      'units', units::text, 'rate', rate::text, 'start_at', start_at, 'end_at', end_at,
                                      'targeting', targeting, 'paused', paused, 'canceled', canceled)
                   order by position)
    from public.orders_dealline where deal_id = p_id
$$;

-- Remember the transaction that inserted a deal: only that transaction may insert its lines.
create function public.fd_deal_born_in() returns trigger language plpgsql as $$
begin
  new.born_in := public.fd_this_transaction();
  return new;
end $$;
create trigger fd_deal_born_in before insert on public.orders_deal
  for each row execute function public.fd_deal_born_in();

-- Lines come with their deal, or by fd_deal_amend, which runs as the owner. Another one would be money that nobody was
-- asked about.
create function public.fd_line_born() returns trigger language plpgsql as $$
begin
  if not public.fd_by_application() then return new; end if;
  perform 1 from public.orders_deal t
    where t.id = new.deal_id and t.version = 1 and t.born_in = public.fd_this_transaction();
  if not found then
    perform public.fd_refuse('line', 'deal', new.deal_id, '', '', 'lines come with their deal',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create trigger fd_line_born before insert on public.orders_dealline
  for each row execute function public.fd_line_born();

-- An account that is being used by a new deal is locked at once, not only at commit (see columns.sql of tasks_app).
do $$
declare
  key record;
begin
  for key in
    select conname from pg_constraint
     where contype = 'f' and conrelid = 'public.orders_deal'::regclass
       and confrelid = 'public.tasks_app_account'::regclass
  loop
    execute format('alter table public.orders_deal alter constraint %I not deferrable', key.conname);
  end loop;
end $$;
