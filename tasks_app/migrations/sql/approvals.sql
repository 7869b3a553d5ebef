-- Approvals and decisions.

-- At commit: a decision has its entry in the trail of its approval.
create function public.fd_decision_told() returns trigger language plpgsql as $$
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
create constraint trigger fd_decision_told after insert on public.tasks_app_decision
  deferrable initially deferred for each row execute function public.fd_decision_told();

-- People who caused what is asked cannot decide on it (four eyes). Names are added to that list, never removed.
create function public.fd_set_off_gains() returns trigger language plpgsql as $$
begin
  if jsonb_typeof(new.set_off_by) is distinct from 'array' or not new.set_off_by @> old.set_off_by then
    perform public.fd_refuse('set_off', 'approval', old.id, '', '',
                             'who set it off does not decide: names are added, and none is taken away');
  end if;
  return new;
end $$;
create trigger fd_set_off_gains before update of set_off_by on public.tasks_app_approval
  for each row execute function public.fd_set_off_gains();

-- Put an open approval to the further roles that its policies name, or extend its deadline as they allow, and write
-- the entry. Returns when; null if somebody else changed the approval first.
create function public.fd_approval_escalate(
    p_id uuid, p_version int, p_due_at timestamptz, p_reason text, p_trace text, p_at timestamptz)
    returns timestamptz
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  r public.tasks_app_approval;
  v_at timestamptz;
  v_roles jsonb;
begin
  select * into r from public.tasks_app_approval t
    where t.id = p_id and t.version = p_version and t.status = 'open' for no key update;
  if not found then return null; end if;
  -- A host's clock may be ahead of this one.
  if least(r.escalate_at, r.due_at) > public.fd_now() + interval '5 minutes'
     or (p_due_at > r.due_at and r.due_at > public.fd_now() + interval '5 minutes') then
    perform public.fd_refuse('asked', 'approval', p_id, r.status, r.status, 'it is not time yet');
  end if;
  if p_due_at < r.due_at or (p_due_at > r.due_at and (r.on_expiry <> 'wait' or p_due_at > r.hold_until)) then
    perform public.fd_refuse('asked', 'approval', p_id, r.status, r.status, 'its policies give it no other time');
  end if;
  select coalesce(jsonb_agg(name order by name), '[]') into v_roles from (
    select jsonb_array_elements_text(r.roles) union select jsonb_array_elements_text(r.escalate_to)
     where r.roles <> '[]') roles (name);
  v_at := coalesce(p_at, clock_timestamp());
  update public.tasks_app_approval t
     set version = p_version + 1, roles = v_roles, due_at = p_due_at, escalated_at = coalesce(r.escalated_at, v_at)
   where t.id = p_id;
  perform public.fd_audit_append(
    'approval', p_id, p_version + 1, r.status, r.status, v_at, 'system', p_reason, '{}',
    jsonb_build_object('roles', jsonb_build_array(r.roles, v_roles),
                       'due_at', jsonb_build_array(to_jsonb(r.due_at), to_jsonb(p_due_at))), p_trace);
  return v_at;
end $$;
