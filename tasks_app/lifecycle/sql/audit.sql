-- The append-only trail: one function writes an entry and its outbox event, chained per entity.
-- Functions that the application calls, and triggers, name the search_path themselves: a temporary table is
-- found before all others, and one with the trail's or the matrix's name would answer in its place.

-- What is refused, said so that the application can tell people (tasks_app/lifecycle/refusals.py): the rule as
-- the constraint's name, what was tried as JSON in the detail.
create or replace function public.fd_refuse(
    p_rule text, p_entity text, p_id uuid, p_from text, p_to text, p_why text,
    p_code text default 'check_violation') returns void
language plpgsql as $$
begin
  raise exception '% %: %', p_entity, coalesce(p_id::text, '(any)'), p_why
    using errcode = p_code, constraint = 'fd_' || p_rule,
          detail = jsonb_build_object('entity', p_entity, 'id', p_id, 'from', p_from, 'to', p_to, 'why', p_why);
end $$;

-- Stable, as convert_to is: declared immutable it would not be inlined, at ten times the cost.
create or replace function public.fd_field(p text) returns text language sql stable parallel safe as
$$ select octet_length(convert_to(p, 'UTF8')) || ':' || p || ',' $$;

-- A time as its microseconds since 1970, UTC.
create or replace function public.fd_field_at(p timestamptz) returns text language sql stable parallel safe as
$$ select public.fd_field((extract(epoch from p) * 1000000)::bigint::text) $$;

-- The bytes that are hashed.
create or replace function public.fd_body(
    p_entity text, p_id uuid, p_seq int, p_from text, p_to text, p_at timestamptz, p_actor text,
    p_reason text, p_metadata jsonb, p_changes jsonb, p_trace text, p_prev bytea) returns bytea
language sql stable parallel safe as $$
  select convert_to(
      public.fd_field('1') || public.fd_field(p_entity) || public.fd_field(p_id::text)
      || public.fd_field(p_seq::text)
      || public.fd_field(p_from) || public.fd_field(p_to) || public.fd_field_at(p_at)
      || public.fd_field(p_actor) || public.fd_field(p_reason) || public.fd_field(p_metadata::text)
      || public.fd_field(p_changes::text) || public.fd_field(p_trace)
      || public.fd_field(encode(p_prev, 'hex')), 'UTF8')
$$;

-- Large values are named by digest and size; the trail tells what changed, the row holds it.
create or replace function public.fd_compact(p jsonb) returns jsonb language sql stable parallel safe as
$$ select case when p is null then 'null'::jsonb
               when octet_length(p::text) <= 2048 then p
               else jsonb_build_object('sha256', encode(sha256(convert_to(p::text, 'UTF8')), 'hex'),
                                       'bytes', octet_length(p::text)) end $$;

-- What an event says of a change; `imported` tells those who act on events that it is history.
create or replace function public.fd_payload(
    p_from text, p_to text, p_actor text, p_metadata jsonb) returns jsonb
language sql stable parallel safe as $$
  select case when p_metadata @> '{"imported": true}'
              then jsonb_build_object('from', p_from, 'to', p_to, 'actor', p_actor, 'imported', true)
              else jsonb_build_object('from', p_from, 'to', p_to, 'actor', p_actor) end
$$;

-- Called by the functions that make the change it tells of, as the owner, and by nobody else.
create or replace function public.fd_audit_append(
    p_entity text, p_id uuid, p_seq int, p_from text, p_to text, p_at timestamptz, p_actor text,
    p_reason text, p_metadata jsonb, p_changes jsonb, p_trace text) returns void
language plpgsql as $$
declare
  v_prev bytea := ''::bytea;
  v_body bytea;
begin
  if p_seq > 1 then
    select hash into v_prev from public.tasks_app_auditentry
     where entity_type = p_entity and entity_id = p_id and seq = p_seq - 1;
    if not found then
      perform public.fd_refuse('chain', p_entity, p_id, p_from, p_to,
                             format('its audit chain has no entry %s', p_seq - 1));
    end if;
  end if;
  v_body := public.fd_body(p_entity, p_id, p_seq, p_from, p_to, p_at, p_actor, p_reason, p_metadata, p_changes,
                    p_trace, v_prev);
  insert into public.tasks_app_auditentry (entity_type, entity_id, seq, from_status, to_status, at, actor,
      reason, metadata, changes, trace_id, format_version, body, prev_hash, hash)
  values (p_entity, p_id, p_seq, p_from, p_to, p_at, p_actor, p_reason, p_metadata, p_changes, p_trace,
      1, v_body, v_prev, sha256(v_body));
  insert into public.tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
  values (p_entity || '.' || case p_to when p_from then 'noted' else p_to end, p_entity, p_id, p_seq,
      public.fd_payload(p_from, p_to, p_actor, p_metadata), p_at);
end $$;

-- Who and why, of every entry from now on (older ones may lack a reason).
alter table public.tasks_app_auditentry drop constraint if exists audit_reason_given;
alter table public.tasks_app_auditentry add constraint audit_reason_given check (reason ~ '\S') not valid;
alter table public.tasks_app_auditentry drop constraint if exists audit_actor_typed;
alter table public.tasks_app_auditentry add constraint audit_actor_typed
  check (actor ~ '^(system|(human|agent):[A-Za-z0-9][A-Za-z0-9._-]{0,71})$') not valid;

create or replace function public.fd_append_only() returns trigger language plpgsql as $$
begin
  perform public.fd_refuse('append_only', tg_table_name::text, null, '', '', 'it is append-only', 'insufficient_privilege');
end $$;

create or replace trigger audit_rows before update or delete on public.tasks_app_auditentry
  for each row execute function public.fd_append_only();
create or replace trigger audit_truncate before truncate on public.tasks_app_auditentry
  for each statement execute function public.fd_append_only();
create or replace trigger observation_rows before update or delete on public.tasks_app_observation
  for each row execute function public.fd_append_only();
create or replace trigger observation_truncate before truncate on public.tasks_app_observation
  for each statement execute function public.fd_append_only();
