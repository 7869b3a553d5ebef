-- The event bus: committed events get increasing positions, and each subscriber has a position up to which it is done.

insert into public.tasks_app_eventstream (id, head) values (1, 0);

-- Number committed events and wake the listeners in one commit, and start new subscribers at the head. Returns how
-- many events, and their types. The lock on the stream's row makes numberings take turns.
create function public.fd_events_number(
    p_limit int, p_names text[], p_channel text, out events bigint, out types text[])
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_head bigint;
begin
  -- A statement of its own before the numbering, which then sees all that the one before it committed.
  select head into v_head from public.tasks_app_eventstream where id = 1 for update;
  -- Ids of one entity rise with its seq: an entry is only written after the one before it (fd_audit_append).
  with fresh as materialized (
    select id from public.tasks_app_outboxevent where position is null order by id limit p_limit
  ), numbered as (
    update public.tasks_app_outboxevent e set position = v_head + f.n
      from (select id, row_number() over (order by id) as n from fresh) f where e.id = f.id
    returning e.type, e.position
  ), by_type as (
    select type, count(*) as events, max(position) as head from numbered group by type
  ), counted as (
    insert into public.tasks_app_eventcount as c (type, total) select b.type, b.events from by_type b
    on conflict (type) do update set total = c.total + excluded.total
  ), in_all as (
    select coalesce(sum(b.events), 0)::bigint as events, max(b.head) as head, array_agg(b.type) as types
      from by_type b
  ), moved as (
    update public.tasks_app_eventstream t set head = a.head from in_all a where t.id = 1 and a.events > 0
  ), begun as (
    insert into public.tasks_app_eventsubscription (name, position)
    select name, v_head from unnest(p_names) name on conflict do nothing
  )
  select a.events, a.types, case when a.events > 0 then pg_notify(p_channel, a.head::text) end
    into events, types from in_all a;
end $$;

-- Delete events that every subscriber has passed and no delivery still needs, at least a day old. The positions are
-- read here, so no caller can claim another. Without subscribers all numbered events may go.
create function public.fd_events_forget(p_before timestamptz, p_limit int) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_passed bigint;
  v_gone int;
begin
  select coalesce((select min(s.position) from public.tasks_app_eventsubscription s), t.head) into v_passed
    from public.tasks_app_eventstream t where t.id = 1;
  delete from public.tasks_app_outboxevent where id in (
    select e.id from public.tasks_app_outboxevent e
     where e.position <= v_passed and e.at < least(p_before, public.fd_now() - interval '1 day')
       and not exists (select from public.tasks_app_eventdelivery d where d.event_id = e.id)
     limit p_limit);
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

-- A subscriber's position moves forward, at most to the last numbered event.
create function public.fd_position_on() returns trigger language plpgsql as $$
begin
  if public.fd_by_application()
     and (new.position < old.position or new.position > (select head from public.tasks_app_eventstream where id = 1))
  then
    perform public.fd_refuse('position', 'eventsubscription', null, '', '', 'a subscriber goes on to what is numbered',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create trigger fd_position_on before update of position on public.tasks_app_eventsubscription
  for each row when (new.position is distinct from old.position) execute function public.fd_position_on();

-- Publish that a person has a new notification.
create function public.fd_tell(p_id uuid, p_at timestamptz) returns void
language sql security definer set search_path = pg_catalog, public, pg_temp as $$
  insert into public.tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
  values ('notification.told', 'notification', p_id, 1, '{}', p_at)
$$;

-- Publish that a message is due. The kill switch may stop it, so it can become due more than once.
create function public.fd_message_due(p_id uuid, p_at timestamptz) returns void
language sql security definer set search_path = pg_catalog, public, pg_temp as $$
  insert into public.tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
  select 'message.to_send', 'message', p_id, coalesce(max(seq), 0) + 1, '{}', p_at
    from public.tasks_app_outboxevent where entity_type = 'message' and entity_id = p_id
$$;
