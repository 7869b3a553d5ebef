-- What is deleted after a while. The application's role deletes none of it directly: these functions run as the
-- owner and keep everything younger than a day.

-- Delete refused and repeated deliveries, at least a day old.
create function public.fd_deliveries_forget(p_before timestamptz, p_limit int) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_gone int;
begin
  delete from public.tasks_app_webhookdelivery where id in (
    select id from public.tasks_app_webhookdelivery
     where verdict in ('refused', 'duplicate') and at < least(p_before, public.fd_now() - interval '1 day')
     order by at limit p_limit);
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

-- Delete notifications before an id, with their read and mail marks, at least a day old.
create function public.fd_notifications_forget(p_before uuid, p_limit int) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_ids uuid[];
begin
  select array_agg(old.id) into v_ids from (
    select n.id from public.tasks_app_notification n
     where n.id < p_before and n.at < public.fd_now() - interval '1 day' order by n.id limit p_limit) old;
  delete from public.tasks_app_notificationread where notification_id = any (v_ids);
  delete from public.tasks_app_notificationmail where notification_id = any (v_ids);
  delete from public.tasks_app_teamwebhooksent where notification_id = any (v_ids);
  delete from public.tasks_app_notification where id = any (v_ids);
  return coalesce(cardinality(v_ids), 0);
end $$;

-- Delete external events that nothing waits for any more, at least a day old.
create function public.fd_outside_forget(p_before timestamptz, p_limit int) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_ids uuid[];
begin
  select array_agg(old.id) into v_ids from (
    select e.id from public.tasks_app_outsideevent e
     where e.received_at < least(p_before, public.fd_now() - interval '1 day')
       and not exists (select from public.tasks_app_step s
                        where s.id = e.step_id and s.status not in ('completed', 'failed', 'cancelled'))
     order by e.received_at limit p_limit for update skip locked) old;
  delete from public.tasks_app_eventwait where event_id = any (v_ids);
  delete from public.tasks_app_outsideevent where id = any (v_ids);
  return coalesce(cardinality(v_ids), 0);
end $$;

-- Delete finished reconciliation runs except the latest, and resolved findings, at least a day old.
create function public.fd_reconciliation_forget(p_before timestamptz, p_limit int) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_before timestamptz := least(p_before, public.fd_now() - interval '1 day');
  v_runs uuid[];
  v_gone int;
begin
  select array_agg(old.id) into v_runs from (
    select r.id from public.tasks_app_reconciliationrun r
     where r.asked_at < v_before and r.state in ('ended', 'lost')
       and r.id <> (select l.id from public.tasks_app_reconciliationrun l order by l.id desc limit 1)
     order by r.id limit p_limit) old;
  delete from public.tasks_app_reconciliationfinding where id in (
    select f.id from public.tasks_app_reconciliationfinding f
     where f.resolved_at < v_before and f.last_seen_at < v_before order by f.resolved_at limit p_limit);
  get diagnostics v_gone = row_count;
  update public.tasks_app_reconciliationfinding set run_id = null where run_id = any (v_runs);
  delete from public.tasks_app_reconciliationrun where id = any (v_runs);
  return v_gone + coalesce(cardinality(v_runs), 0);
end $$;

-- The server sets when a reconciliation was requested and when a finding or conflict was resolved: these times
-- decide when the rows are deleted.
create function public.fd_reconciliation_at() returns trigger language plpgsql as $$
begin
  if public.fd_by_application() then
    new.asked_at := public.fd_now();
  end if;
  return new;
end $$;
create trigger fd_reconciliation_at before insert on public.tasks_app_reconciliationrun
  for each row execute function public.fd_reconciliation_at();
create function public.fd_resolved_at() returns trigger language plpgsql as $$
begin
  if public.fd_by_application() and (tg_op = 'INSERT' or new.resolved_at is distinct from old.resolved_at) then
    new.resolved_at := public.fd_now();
  end if;
  return new;
end $$;
create trigger fd_resolved_at before insert or update of resolved_at on public.tasks_app_reconciliationfinding
  for each row when (new.resolved_at is not null) execute function public.fd_resolved_at();
