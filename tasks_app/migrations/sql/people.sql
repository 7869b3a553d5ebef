-- Users, rights and sellers: the security log has an entry for each change.

-- The security log is append-only. fd_security_forget alone deletes, and only what is older than 90 days.
create function fd_security_kept() returns trigger language plpgsql set search_path = public, pg_temp as $$
begin
  if tg_op = 'DELETE' and old.at < now() - interval '90 days'
     and current_setting('flightdeck.security_forget', true) = 'on' then
    return old;
  end if;
  perform public.fd_refuse('append_only', 'securityevent', case when tg_op <> 'TRUNCATE' then old.id end, '', '',
                           'the security log is only added to', 'insufficient_privilege');
  return null;
end $$;
create trigger fd_security_kept before update or delete on tasks_app_securityevent
  for each row execute function fd_security_kept();
create trigger fd_security_never_truncated before truncate on tasks_app_securityevent
  for each statement execute function fd_security_kept();

-- The server sets the time and the transaction of an entry.
create function public.fd_security_at() returns trigger language plpgsql as $$
begin
  new.born_in := public.fd_this_transaction();
  if not pg_catalog.pg_has_role(current_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member')
  then
    new.at := public.fd_now();
  end if;
  return new;
end $$;
create trigger fd_security_at before insert on public.tasks_app_securityevent
  for each row execute function public.fd_security_at();

-- Delete up to 2,000 entries of the security log that are older than p_before and than 90 days. Returns how many.
create function public.fd_security_forget(p_before timestamptz) returns int
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

-- Only the owner of the database makes superusers.
create function public.fd_no_superuser() returns trigger language plpgsql as $$
begin
  if (tg_op = 'INSERT' or not old.is_superuser)
     and not pg_catalog.pg_has_role(current_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member')
  then
    perform public.fd_refuse('superuser', 'user', new.id, '', '', 'only the database''s owner makes superusers',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create trigger fd_no_superuser before insert or update of is_superuser on public.tasks_app_user
  for each row when (new.is_superuser) execute function public.fd_no_superuser();

-- At commit: a new user, and any change of rights or roles, has its entry in the security log, written in the same
-- transaction.
create function public.fd_rights_told() returns trigger language plpgsql as $$
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
create constraint trigger fd_rights_born after insert on public.tasks_app_user
  deferrable initially deferred for each row when (public.fd_by_application())
  execute function public.fd_rights_told();
create constraint trigger fd_rights_told
  after update of username, is_active, is_staff, is_superuser, is_service on public.tasks_app_user
  deferrable initially deferred for each row
  when ((old.username, old.is_active, old.is_staff, old.is_superuser, old.is_service)
        is distinct from (new.username, new.is_active, new.is_staff, new.is_superuser, new.is_service)
        and public.fd_by_application())
  execute function public.fd_rights_told();
create constraint trigger fd_rights_told after insert or update or delete on public.tasks_app_user_groups
  deferrable initially deferred for each row when (public.fd_by_application())
  execute function public.fd_rights_told();

-- Columns of a seller or an account that the sweep and the seller's answers fill. No person writes them, so no
-- entry is needed.
create function public.fd_heard(p_table text) returns text[] language sql immutable as $$
  select case p_table when 'tasks_app_seller' then
    '{capabilities,capabilities_at,capabilities_next_at,adcp_version,tools,idempotency_ttl_s,quirks,'
    'read_refusal,'
    'webhook_paused_until,webhook_judged_since,webhook_checked_at}'::text[]
  else '{said,refused_reference,status_since,read_at,next_read_at,people_said_at,asked_at}'::text[] end
$$;

-- At commit: a new seller or account, and every changed column of one, has its entry in the security log, written
-- in the same transaction. Three columns count as part of another; on insert, empty values and keys need none.
create function public.fd_trust_told() returns trigger language plpgsql as $$
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
create constraint trigger fd_trust_born after insert on public.tasks_app_seller
  deferrable initially deferred for each row when (public.fd_by_application())
  execute function public.fd_trust_told();
create constraint trigger fd_trust_born after insert on public.tasks_app_account
  deferrable initially deferred for each row when (public.fd_by_application())
  execute function public.fd_trust_told();
create constraint trigger fd_trust_told after update on public.tasks_app_seller
  deferrable initially deferred for each row
  when (to_jsonb(old) - public.fd_heard('tasks_app_seller')
        is distinct from to_jsonb(new) - public.fd_heard('tasks_app_seller') and public.fd_by_application())
  execute function public.fd_trust_told();
create constraint trigger fd_trust_told after update on public.tasks_app_account
  deferrable initially deferred for each row
  when (to_jsonb(old) - public.fd_heard('tasks_app_account')
        is distinct from to_jsonb(new) - public.fd_heard('tasks_app_account') and public.fd_by_application())
  execute function public.fd_trust_told();
