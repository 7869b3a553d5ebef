-- The audit trail: append-only, and each entry's hash includes the hash of the entity's previous one.

-- One length-prefixed field of the hashed bytes. Declared stable like convert_to: PostgreSQL would not inline an
-- immutable function, at ten times the cost.
create function public.fd_field(p text) returns text language sql stable parallel safe as
$$ select octet_length(convert_to(p, 'UTF8')) || ':' || p || ',' $$;

-- A time as integer microseconds since 1970, UTC.
create function public.fd_field_at(p timestamptz) returns text language sql stable parallel safe as
$$ select public.fd_field((extract(epoch from p) * 1000000)::bigint::text) $$;

-- The bytes that are hashed.
create function public.fd_body(
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

-- Replace a value above 2 KB by its digest and size. The trail says that it changed; the row holds the value.
create function public.fd_compact(p jsonb) returns jsonb language sql stable parallel safe as
$$ select case when p is null then 'null'::jsonb
               when octet_length(p::text) <= 2048 then p
               else jsonb_build_object('sha256', encode(sha256(convert_to(p::text, 'UTF8')), 'hex'),
                                       'bytes', octet_length(p::text)) end $$;

-- The payload of the event that announces a change. `imported` marks history, which no subscriber acts on.
create function public.fd_payload(
    p_from text, p_to text, p_actor text, p_metadata jsonb) returns jsonb
language sql stable parallel safe as $$
  select case when p_metadata @> '{"imported": true}'
              then jsonb_build_object('from', p_from, 'to', p_to, 'actor', p_actor, 'imported', true)
              else jsonb_build_object('from', p_from, 'to', p_to, 'actor', p_actor) end
$$;

-- Write one entry and its outbox event. Only the functions that also make the change call it, as the owner.
create function public.fd_audit_append(
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

alter table public.tasks_app_auditentry add constraint audit_reason_given check (reason ~ '\S');
alter table public.tasks_app_auditentry add constraint audit_actor_typed
  check (actor ~ '^(system|(human|agent):[A-Za-z0-9][A-Za-z0-9._-]{0,71})$');

-- Refuse a change of a column that is not in p_named.
create function public.fd_only(
    p_what text, p_entity text, p_id uuid, p_changes jsonb, p_named text[]) returns void
language plpgsql as $$
begin
  if p_changes - p_named <> '{}' then
    perform public.fd_refuse('changes', p_entity, p_id, '', '', p_what || ' does not change ' || (
      select string_agg(k, ', ' order by k) from jsonb_object_keys(p_changes - p_named) k));
  end if;
end $$;

-- Record the transaction of an import; the application cannot choose it.
create function public.fd_import_txid() returns trigger language plpgsql as $$
begin
  new.txid := pg_current_xact_id()::text::bigint;
  return new;
end $$;
create trigger import_txid before insert on public.tasks_app_import
  for each row execute function public.fd_import_txid();
