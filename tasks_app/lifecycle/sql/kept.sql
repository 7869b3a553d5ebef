-- What stays as it was written although rows of the same table are added, and what changes in a named way only:
-- functions of the owner number events and forget what is past its time, triggers compare old with new.

-- The server's clock, which the application cannot set.
create or replace function public.fd_now() returns timestamptz language sql volatile as $$
  select clock_timestamp()
$$;

-- Numbers committed events in one commit that also wakes listeners; begins subscribers seen for the first time at
-- the head. Answers how many, and which types are among them. Numberings take turns: the stream's row is held.
create or replace function public.fd_events_number(
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

-- Removes events that every subscriber has passed, never younger than a day nor one that a delivery waits for. How
-- far all are is read here, whoever calls; with nobody subscribed, what is numbered goes.
drop function if exists public.fd_events_forget(bigint, timestamptz, int);
create or replace function public.fd_events_forget(p_before timestamptz, p_limit int) returns int
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

-- Removes refused and repeated deliveries, never younger than a day.
create or replace function public.fd_deliveries_forget(p_before timestamptz, p_limit int) returns int
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

-- A delivery that had its effect keeps what became of it.
create or replace function public.fd_delivery_kept() returns trigger language plpgsql as $$
begin
  if (new.verdict, new.reason, new.operation_id) is distinct from (old.verdict, old.reason, old.operation_id) then
    perform public.fd_refuse('append_only', 'webhookdelivery', old.id, '', '',
                             'what became of a delivery is kept', 'insufficient_privilege');
  end if;
  return new;
end $$;
create or replace trigger fd_delivery_kept before update on public.tasks_app_webhookdelivery
  for each row when (old.verdict in ('refused', 'duplicate', 'conflict', 'key_conflict')
                     or (old.verdict = 'applied' and old.reason <> ''))
  execute function public.fd_delivery_kept();

-- What a delivery said stays as it was first written, also until it has had its effect. Past its horizon (a day,
-- where it has none) the binding ends, the key is cut to its beginning, and the body goes, but for what contradicts
-- an end. Before its effect the owner's fd_delivery_hide takes something out of it, and nothing else does.
create or replace function public.fd_delivery_said() returns trigger language plpgsql as $$
begin
  if not public.fd_by_application()
     and (old.verdict in ('received', 'early') or (old.verdict = 'applied' and old.reason = '')) then
    return new;
  end if;
  if (new.body is distinct from old.body
      and (new.body is not null or old.verdict in ('received', 'conflict')
           or coalesce(old.bound_until, old.at + interval '1 day') > public.fd_now()))
     or (new.bound_until is distinct from old.bound_until
         and (new.bound_until is not null or old.bound_until > public.fd_now()))
     or (new.key is distinct from old.key and new.key is distinct from left(old.key, 8)) then
    perform public.fd_refuse('append_only', 'webhookdelivery', old.id, '', '',
                             'what a delivery said is kept', 'insufficient_privilege');
  end if;
  return new;
end $$;
create or replace trigger fd_delivery_said before update of body, bound_until, key on public.tasks_app_webhookdelivery
  for each row execute function public.fd_delivery_said();

-- Hides our token in what a delivery said before it was known which operation it is about: the text as it stands,
-- where it is as long as our tokens are and of their letters, and nothing else. Answers whether it stood there.
create or replace function public.fd_delivery_hide(p_id uuid, p_token text) returns boolean
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  if p_token !~ '^[A-Za-z0-9_-]{43}$' then
    return false;
  end if;
  update public.tasks_app_webhookdelivery
     set body = replace(body::text, p_token, '[redacted]')::jsonb
   where id = p_id and verdict in ('received', 'early') and strpos(body::text, p_token) > 0;
  return found;
end $$;

-- A transaction by its number and its beginning; a number alone would come again in a restored database.
create or replace function public.fd_this_transaction() returns text language sql stable as $$
  select pg_catalog.pg_current_xact_id()::text || ' ' || extract(epoch from pg_catalog.transaction_timestamp())
$$;

-- Whether somebody else than the owner, or one as good as he, is at work.
create or replace function public.fd_by_application() returns boolean language sql stable as $$
  select not pg_catalog.pg_has_role(
    current_user, (select relowner from pg_catalog.pg_class where oid = 'public.tasks_app_user'::regclass), 'member')
$$;

-- When something happened, and in which transaction, is the server's word.
create or replace function public.fd_security_at() returns trigger language plpgsql as $$
begin
  new.born_in := public.fd_this_transaction();
  if not pg_catalog.pg_has_role(current_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member')
  then
    new.at := public.fd_now();
  end if;
  return new;
end $$;
create or replace trigger fd_security_at before insert on public.tasks_app_securityevent
  for each row execute function public.fd_security_at();

-- A superuser is made by whoever owns the database, never by the application.
create or replace function public.fd_no_superuser() returns trigger language plpgsql as $$
begin
  if (tg_op = 'INSERT' or not old.is_superuser)
     and not pg_catalog.pg_has_role(current_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member')
  then
    perform public.fd_refuse('superuser', 'user', new.id, '', '', 'only the database''s owner makes superusers',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create or replace trigger fd_no_superuser before insert or update of is_superuser on public.tasks_app_user
  for each row when (new.is_superuser) execute function public.fd_no_superuser();

-- What leaves is what was frozen; the owner alone may encrypt it anew.
create or replace function public.fd_operation_frozen() returns trigger language plpgsql as $$
begin
  if (new.request, new.purpose, new.idempotency_key, new.task_type, new.seller_id)
       is distinct from (old.request, old.purpose, old.idempotency_key, old.task_type, old.seller_id)
     or (new.request_text is distinct from old.request_text
         and not pg_catalog.pg_has_role(
           session_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member')) then
    perform public.fd_refuse('frozen', 'operation', old.id, old.status, new.status,
                             'its request is frozen', 'insufficient_privilege');
  end if;
  return new;
end $$;
create or replace trigger fd_operation_frozen
  before update of request, request_text, purpose, idempotency_key, task_type, seller_id on public.tasks_app_operation
  for each row execute function public.fd_operation_frozen();

-- What a settled operation came to changes with an entry alone (fd_move_operation, fd_note_operation).
create or replace function public.fd_operation_result() returns trigger language plpgsql as $$
begin
  if pg_catalog.pg_has_role(current_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member')
  then
    return new;
  end if;
  perform public.fd_refuse('result', 'operation', old.id, old.status, new.status,
                           'what it came to is kept', 'insufficient_privilege');
  return null;
end $$;
create or replace trigger fd_operation_result before update of result, error, settled_at on public.tasks_app_operation
  for each row when (
    old.status = new.status
    and (old.settled_at is not null or old.status in ('completed', 'failed', 'rejected', 'canceled'))
    and (new.result, new.error, new.settled_at) is distinct from (old.result, old.error, old.settled_at))
  execute function public.fd_operation_result();

-- A decision stands in its approval's trail.
create or replace function public.fd_decision_told() returns trigger language plpgsql as $$
begin
  perform 1 from public.tasks_app_auditentry
    where entity_type = 'approval' and entity_id = new.approval_id and actor = new.actor
      and metadata ->> 'decision' = new.id::text;
  if not found then
    perform public.fd_refuse('decision', 'approval', new.approval_id, '', '',
                             'a decision has no audit entry in this transaction');
  end if;
  return null;
end $$;
drop trigger if exists fd_decision_told on public.tasks_app_decision;
create constraint trigger fd_decision_told after insert on public.tasks_app_decision
  deferrable initially deferred for each row execute function public.fd_decision_told();

-- Removes what is old of the security log, some in each call, and nothing younger than 90 days.
create or replace function public.fd_security_forget(p_before timestamptz) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_gone int;
begin
  perform set_config('flightdeck.security_forget', 'on', true);
  delete from public.tasks_app_securityevent where id in (
    select id from public.tasks_app_securityevent
     where at < least(p_before, public.fd_now() - interval '90 days') order by at limit 2000);
  get diagnostics v_gone = row_count;
  perform set_config('flightdeck.security_forget', '', true);
  return v_gone;
end $$;

-- An answer to a seller leaves as it was given: it is taken back as a whole before its release, while nobody is
-- asked about it, and changed never. The owner alone may encrypt it anew.
create or replace function public.fd_answer_frozen() returns trigger language plpgsql as $$
begin
  if new.request_text is distinct from old.request_text and pg_catalog.pg_has_role(
       session_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member') then
    return new;
  end if;
  if old.released_at is null and new.released_at is null
     and new.request_text is null and new.answer is null and new.answered_at is null
     and not exists (select from public.tasks_app_approval a
                      where a.kind = 'answer' and a.subject_type = 'operation' and a.status = 'open'
                        and a.subject_id = old.operation_id and a.subject_version = old.generation) then
    return new;
  end if;
  perform public.fd_refuse('answer', 'continuation', old.id, '', '', 'its answer is frozen',
                           'insufficient_privilege');
  return null;
end $$;
create or replace trigger fd_answer_frozen
  before update of request_text, answer, answered_by, answered_at, released_at on public.tasks_app_continuation
  for each row when (
    (old.answered_at is not null
     and (old.request_text, old.answer, old.answered_by, old.answered_at)
         is distinct from (new.request_text, new.answer, new.answered_by, new.answered_at))
    or (old.released_at is not null and new.released_at is distinct from old.released_at))
  execute function public.fd_answer_frozen();

-- Each waiting at gates is a round of its own, and the rounds rise; what people let pass in one is not taken into
-- the next.
create or replace function public.fd_gate_round() returns trigger language plpgsql as $$
begin
  perform public.fd_refuse('gate', 'command', new.id, '', '', 'each waiting at its gates is a round of its own',
                           'insufficient_privilege');
  return null;
end $$;
create or replace trigger fd_gate_round before update of waiting_since, gate_round on public.tasks_app_command
  for each row when (
    new.gate_round not in (old.gate_round, old.gate_round + 1)
    or (old.waiting_since is null and new.waiting_since is not null and new.gate_round = old.gate_round)
    or (new.gate_round <> old.gate_round and new.overrides <> '[]'))
  execute function public.fd_gate_round();

-- A gate is passed where an approval of the round that ends with it says so, and in no other way: what people said
-- of an earlier waiting, or was used, is spent.
create or replace function public.fd_gate_passed() returns trigger language plpgsql as $$
begin
  if exists (
    select from jsonb_array_elements_text(new.overrides) g (name)
     where not (tg_op = 'UPDATE' and old.overrides ? g.name) and not (
       (tg_op = 'INSERT' or (old.waiting_since is not null and new.waiting_since is null
                             and new.gate_round = old.gate_round))
       and exists (
         select from public.tasks_app_approval a
          where a.subject_type = 'command' and a.subject_id = new.id and a.subject_version = new.gate_round
            and a.status = 'approved'
            and coalesce(a.evidence -> 'passes', a.evidence -> 'gates') ? g.name))) then
    perform public.fd_refuse('gate', 'command', new.id, '', '', 'nobody approved that it passes its gates',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create or replace trigger fd_gate_passed before insert or update of overrides on public.tasks_app_command
  for each row when (new.overrides <> '[]') execute function public.fd_gate_passed();

-- Who becomes a user, and what they may, stands in the security log at commit, written in the same transaction.
create or replace function public.fd_rights_told() returns trigger language plpgsql as $$
declare
  v_user uuid;
begin
  if tg_table_name = 'tasks_app_user' then
    v_user := new.id;
  elsif tg_op = 'DELETE' then
    v_user := old.user_id;
  else
    v_user := new.user_id;
  end if;
  perform 1 from public.tasks_app_user u join public.tasks_app_securityevent s
      on s.event = 'rights_changed' and s.about = u.username and s.born_in = public.fd_this_transaction()
   where u.id = v_user;
  if not found then
    perform public.fd_refuse('rights', 'user', v_user, '', '', 'a change of rights has no entry in the security log',
                             'insufficient_privilege');
  end if;
  return null;
end $$;
drop trigger if exists fd_rights_born on public.tasks_app_user;
create constraint trigger fd_rights_born after insert on public.tasks_app_user
  deferrable initially deferred for each row when (public.fd_by_application())
  execute function public.fd_rights_told();
drop trigger if exists fd_rights_told on public.tasks_app_user;
create constraint trigger fd_rights_told
  after update of username, is_active, is_staff, is_superuser, is_service on public.tasks_app_user
  deferrable initially deferred for each row
  when ((old.username, old.is_active, old.is_staff, old.is_superuser, old.is_service)
        is distinct from (new.username, new.is_active, new.is_staff, new.is_superuser, new.is_service)
        and public.fd_by_application())
  execute function public.fd_rights_told();
drop trigger if exists fd_rights_told on public.tasks_app_user_groups;
create constraint trigger fd_rights_told after insert or update or delete on public.tasks_app_user_groups
  deferrable initially deferred for each row when (public.fd_by_application())
  execute function public.fd_rights_told();

-- A subscriber goes on, as far as events are numbered, and never back.
create or replace function public.fd_position_on() returns trigger language plpgsql as $$
begin
  if public.fd_by_application()
     and (new.position < old.position or new.position > (select head from public.tasks_app_eventstream where id = 1))
  then
    perform public.fd_refuse('position', 'eventsubscription', null, '', '', 'a subscriber goes on to what is numbered',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create or replace trigger fd_position_on before update of position on public.tasks_app_eventsubscription
  for each row when (new.position is distinct from old.position) execute function public.fd_position_on();

-- An answer that may move money is released where an approval of this pause says so; new credentials alone, which
-- say nothing, and a read need none.
create or replace function public.fd_answer_released() returns trigger language plpgsql as $$
begin
  if public.fd_by_application()
     and (tg_op = 'INSERT' or old.released_at is null)
     and not coalesce(new.kind = 'auth' and new.answer ->> 'text' = '' and new.answer -> 'changes' = '{}', false)
     and exists (select from public.tasks_app_operation o
                  where o.id = new.operation_id and o.idempotency_key is not null)
     and not exists (select from public.tasks_app_approval a
                      where a.kind = 'answer' and a.subject_type = 'operation' and a.status = 'approved'
                        and a.subject_id = new.operation_id and a.subject_version = new.generation) then
    perform public.fd_refuse('release', 'continuation', new.id, '', '', 'nobody approved this answer',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create or replace trigger fd_answer_released before insert or update of released_at on public.tasks_app_continuation
  for each row when (new.released_at is not null) execute function public.fd_answer_released();

-- Removes notifications before an id, with what was read and mailed of them, never younger than a day.
create or replace function public.fd_notifications_forget(p_before uuid, p_limit int) returns int
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

-- Removes events from outside that nobody has taken, or whose step has ended, never younger than a day.
create or replace function public.fd_outside_forget(p_before timestamptz, p_limit int) returns int
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

-- Removes runs of reconciliation that are over, but the latest, and findings that are resolved, never younger than
-- a day.
create or replace function public.fd_reconciliation_forget(p_before timestamptz, p_limit int) returns int
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

-- When a reconciliation was asked for, and when a finding of it was resolved, is the server's word: both decide when
-- they are forgotten.
create or replace function public.fd_reconciliation_at() returns trigger language plpgsql as $$
begin
  if public.fd_by_application() then
    new.asked_at := public.fd_now();
  end if;
  return new;
end $$;
create or replace trigger fd_reconciliation_at before insert on public.tasks_app_reconciliationrun
  for each row execute function public.fd_reconciliation_at();
create or replace function public.fd_resolved_at() returns trigger language plpgsql as $$
begin
  if public.fd_by_application() and (tg_op = 'INSERT' or new.resolved_at is distinct from old.resolved_at) then
    new.resolved_at := public.fd_now();
  end if;
  return new;
end $$;
create or replace trigger fd_resolved_at before insert or update of resolved_at on public.tasks_app_reconciliationfinding
  for each row when (new.resolved_at is not null) execute function public.fd_resolved_at();

-- Columns that hold what a seller says of itself and of an account, what the sweep keeps, and when people spoke or
-- were answered: no person writes them.
create or replace function public.fd_heard(p_table text) returns text[] language sql immutable as $$
  select case p_table when 'tasks_app_seller' then
    '{capabilities,capabilities_at,capabilities_next_at,adcp_version,tools,idempotency_ttl_s,quirks,'
    'webhook_paused_until,webhook_judged_since,webhook_checked_at}'::text[]
  else '{said,refused_reference,status_since,read_at,next_read_at,people_said_at,asked_at}'::text[] end
$$;

-- A seller or an account that is added, and what else changes of one, stands in the security log at commit, column by
-- column, written in the same transaction: what decides whom we believe most of all. Three columns follow one that is
-- told; of one that is added, what is empty and whose it is need not be.
create or replace function public.fd_trust_told() returns trigger language plpgsql as $$
declare
  v_about text;
  v_untold text;
begin
  if tg_table_name = 'tasks_app_seller' then
    v_about := new.slug;
  else
    select left(a.name || ' with ' || s.name, 200) into v_about
      from public.tasks_app_advertiser a, public.tasks_app_seller s
     where a.id = new.advertiser_id and s.id = new.seller_id;
  end if;
  select string_agg(n.key, ', ' order by n.key) into v_untold
    from jsonb_each(to_jsonb(new) - public.fd_heard(tg_table_name)) n
   where case when tg_op = 'INSERT'
              then n.key <> all ('{id,slug,created_at,seller_id,advertiser_id}'::text[])
                   and n.value <> all (array['null', '""', '{}', '[]', 'false']::jsonb[])
              else n.value is distinct from to_jsonb(old) -> n.key end
     and not exists (
       select from public.tasks_app_securityevent e
        where e.event in ('seller_changed', 'account_told') and e.about = v_about
          and e.born_in = public.fd_this_transaction()
          and e.detail -> 'changes' ? case n.key
            when 'webhook_secret_previous' then 'webhook_secret'
            when 'webhook_secret_previous_until' then 'webhook_secret'
            when 'switched_off_by' then 'status'
            else n.key end);
  if v_untold is not null then
    perform public.fd_refuse('trust', replace(tg_table_name, 'tasks_app_', ''), new.id, '', '',
                             case when tg_op = 'INSERT' then 'what is added' else 'a change' end
                             || ' has no entry in the security log: ' || v_untold, 'insufficient_privilege');
  end if;
  return null;
end $$;
drop trigger if exists fd_trust_born on public.tasks_app_seller;
create constraint trigger fd_trust_born after insert on public.tasks_app_seller
  deferrable initially deferred for each row when (public.fd_by_application())
  execute function public.fd_trust_told();
drop trigger if exists fd_trust_born on public.tasks_app_account;
create constraint trigger fd_trust_born after insert on public.tasks_app_account
  deferrable initially deferred for each row when (public.fd_by_application())
  execute function public.fd_trust_told();
drop trigger if exists fd_trust_told on public.tasks_app_seller;
create constraint trigger fd_trust_told after update on public.tasks_app_seller
  deferrable initially deferred for each row
  when (to_jsonb(old) - public.fd_heard('tasks_app_seller')
        is distinct from to_jsonb(new) - public.fd_heard('tasks_app_seller') and public.fd_by_application())
  execute function public.fd_trust_told();
drop trigger if exists fd_trust_told on public.tasks_app_account;
create constraint trigger fd_trust_told after update on public.tasks_app_account
  deferrable initially deferred for each row
  when (to_jsonb(old) - public.fd_heard('tasks_app_account')
        is distinct from to_jsonb(new) - public.fd_heard('tasks_app_account') and public.fd_by_application())
  execute function public.fd_trust_told();

-- How a contradiction was resolved, by whom and when, is what its latest question came to, and stays. It is opened
-- unresolved, or waits for one that is open; open again it is as it was before, and people are asked.
create or replace function public.fd_conflict_resolved() returns trigger language plpgsql as $$
declare
  v_why text := '';
begin
  if not public.fd_by_application() then
    return new;
  end if;
  if new.resolved_at is null then
    if (new.resolution, new.resolved_by, new.waits_because) is distinct from ('', '', '')
       or new.reason <> (case when tg_op = 'INSERT' then '' else old.reason end) then
      v_why := 'what is open has no resolution';
    end if;
  elsif tg_op = 'INSERT' then
    if (new.resolution, new.resolved_by, new.reason) is distinct from ('kept', 'system', '')
       or new.waits_because = '' then
      v_why := 'nobody decided on it';
    end if;
  elsif old.resolved_at is null then
    if not exists (
      select from (
        select a.id, a.status from public.tasks_app_approval a
         where a.kind = 'conflict' and a.subject_type = 'conflict' and a.subject_id = new.id
         order by a.id desc limit 1) asked
        join public.tasks_app_auditentry e
          on e.entity_type = 'approval' and e.entity_id = asked.id and e.to_status = asked.status
             and e.actor = new.resolved_by
       where (asked.status, new.resolution) in (('approved', 'kept'), ('rejected', 'taken'))) then
      v_why := 'nobody decided on it so';
    end if;
  elsif (new.resolution, new.resolved_by, new.resolved_at, new.reason)
          is distinct from (old.resolution, old.resolved_by, old.resolved_at, old.reason)
        or (old.waits_because <> '' and new.waits_because = '') then
    v_why := 'how it was resolved is kept';
  end if;
  if v_why <> '' then
    perform public.fd_refuse('resolved', 'conflict', new.id, '', '', v_why, 'insufficient_privilege');
  end if;
  return new;
end $$;
create or replace trigger fd_conflict_resolved before insert or update on public.tasks_app_conflict
  for each row execute function public.fd_conflict_resolved();
create or replace trigger fd_resolved_at before insert or update of resolved_at on public.tasks_app_conflict
  for each row when (new.resolved_at is not null) execute function public.fd_resolved_at();

-- What was resolved and is open again is asked of people, at commit.
create or replace function public.fd_conflict_asked() returns trigger language plpgsql as $$
begin
  if not exists (
    select from public.tasks_app_conflict c where c.id = new.id and c.resolved_at is not null
    union all
    select from public.tasks_app_approval a
     where a.kind = 'conflict' and a.subject_type = 'conflict' and a.subject_id = new.id and a.status = 'open') then
    perform public.fd_refuse('resolved', 'conflict', new.id, '', '', 'it is open again and nobody is asked',
                             'insufficient_privilege');
  end if;
  return null;
end $$;
drop trigger if exists fd_conflict_asked on public.tasks_app_conflict;
create constraint trigger fd_conflict_asked after update on public.tasks_app_conflict
  deferrable initially deferred for each row
  when (old.resolved_at is not null and new.resolved_at is null and public.fd_by_application())
  execute function public.fd_conflict_asked();
