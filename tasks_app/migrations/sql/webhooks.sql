-- Webhook deliveries are evidence.

-- A delivery that was acted on keeps its verdict, reason and operation.
create function public.fd_delivery_kept() returns trigger language plpgsql as $$
begin
  if (new.verdict, new.reason, new.operation_id) is distinct from (old.verdict, old.reason, old.operation_id) then
    perform public.fd_refuse('append_only', 'webhookdelivery', old.id, '', '',
                             'what became of a delivery is kept', 'insufficient_privilege');
  end if;
  return new;
end $$;
create trigger fd_delivery_kept before update on public.tasks_app_webhookdelivery
  for each row when (old.verdict in ('refused', 'duplicate', 'conflict', 'key_conflict')
                     or (old.verdict = 'applied' and old.reason <> ''))
  execute function public.fd_delivery_kept();

-- The content of a delivery never changes. After its horizon (a day by default) its binding ends, its key is
-- shortened, and its body is deleted unless it contradicts a settled operation. Before it is acted on, only
-- fd_delivery_hide edits it.
create function public.fd_delivery_said() returns trigger language plpgsql as $$
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
create trigger fd_delivery_said before update of body, bound_until, key on public.tasks_app_webhookdelivery
  for each row execute function public.fd_delivery_said();

-- Replace our token in the stored body of a delivery that is not yet matched to an operation. Accepts only text of
-- the form of our tokens. Returns whether it was there.
create function public.fd_delivery_hide(p_id uuid, p_token text) returns boolean
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
