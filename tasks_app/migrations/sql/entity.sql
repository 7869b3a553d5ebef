-- The rules of one entity with a status: {entity}, in the table {table}. Braces are filled in by install.py.
--
-- The status changes only through the functions below. Each one locks the row, changes it, and writes the audit entry
-- and the outbox event, in one round trip. They run as the owner, since only the owner may write entries.
--
-- The triggers refuse everything else: an undeclared edge, a version that does not rise by one, a first status other
-- than {initial} (imports excepted), a deletion, and at commit a change without its entry or an entry without its change.

-- Change the status of one row. Returns when; null if somebody else changed the row first.
create function public.fd_move_{entity}(
    p_id uuid, p_from text, p_to text, p_version int, p_actor text, p_reason text, p_metadata jsonb,
    p_changes jsonb, p_trace text, p_at timestamptz) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  r public.{table};
  v_at timestamptz;
  v_row jsonb;
  v_columns text;
  v_changes jsonb := '{{}}'::jsonb;
begin
  perform public.fd_only('a move', '{entity}', p_id, p_changes, public.fd_moved_{entity}());
  if p_changes is null then
    perform 1 from public.{table} t
      where t.id = p_id and t.status = p_from and t.version = p_version for no key update;
    if not found then return null; end if;
    -- After the lock, so that no effect is stamped before its cause.
    v_at := coalesce(p_at, clock_timestamp());
    update public.{table} t set status = p_to, version = p_version + 1, status_since = v_at where t.id = p_id;
  else
    select * into r from public.{table} t
      where t.id = p_id and t.status = p_from and t.version = p_version for no key update;
    if not found then return null; end if;
    v_at := coalesce(p_at, clock_timestamp());
    v_row := to_jsonb(r);
    select string_agg(quote_ident(k), ', '),
           jsonb_object_agg(k, jsonb_build_array(public.fd_compact(v_row -> k), public.fd_compact(p_changes -> k)))
      into v_columns, v_changes from jsonb_object_keys(p_changes) k;
    execute format('update public.{table} t set status = $1, version = $2, status_since = $3, (%1$s) = '
                   '(select %1$s from jsonb_populate_record($4, $5)) where t.id = $6', v_columns)
      using p_to, p_version + 1, v_at, r, p_changes, p_id;
  end if;
  perform public.fd_audit_append('{entity}', p_id, p_version + 1, p_from, p_to, v_at, p_actor, p_reason,
                          p_metadata, v_changes, p_trace);
  return v_at;
end $$;

-- Change other columns of one row, with an entry from the status to itself and the next version. Returns when; null if
-- somebody else changed the row first.
create function public.fd_note_{entity}(
    p_id uuid, p_version int, p_actor text, p_reason text, p_metadata jsonb, p_changes jsonb, p_trace text,
    p_at timestamptz) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  r public.{table};
  v_at timestamptz;
  v_columns text;
  v_changes jsonb := '{{}}'::jsonb;
begin
  perform public.fd_only('a note', '{entity}', p_id, p_changes, public.fd_noted_{entity}());
  select * into r from public.{table} t where t.id = p_id and t.version = p_version for no key update;
  if not found then return null; end if;
  v_at := coalesce(p_at, clock_timestamp());
  update public.{table} t set version = p_version + 1 where t.id = p_id;
  if p_changes is not null then
    select string_agg(quote_ident(k), ', '),
           jsonb_object_agg(k, jsonb_build_array(public.fd_compact(to_jsonb(r) -> k), public.fd_compact(p_changes -> k)))
      into v_columns, v_changes from jsonb_object_keys(p_changes) k;
    execute format('update public.{table} t set (%1$s) = (select %1$s from jsonb_populate_record($1, $2)) '
                   'where t.id = $3', v_columns) using r, p_changes, p_id;
  end if;
  perform public.fd_audit_append('{entity}', p_id, p_version + 1, r.status, r.status, v_at, p_actor, p_reason,
                                 p_metadata, v_changes, p_trace);
  return v_at;
end $$;

-- Write the first entry of rows that this transaction inserted. Returns how many.
create function public.fd_birth_{entity}(
    p_ids uuid[], p_actor text, p_reason text, p_metadata jsonb, p_trace text, p_at timestamptz) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_born int;
begin
  perform public.fd_audit_append('{entity}', t.id, 1, '', t.status, coalesce(p_at, clock_timestamp()),
                                 p_actor, p_reason, p_metadata, '{{}}', p_trace)
    from unnest(p_ids) with ordinality u (id, place) join public.{table} t on t.id = u.id and t.version = 1
   order by u.place;
  get diagnostics v_born = row_count;
  return v_born;
end $$;

-- Leave room on every page for the next version of a row: a status change then updates no index (HOT).
alter table public.{table} set (fillfactor = 70);

-- Change the status of many rows in one statement. p_reasons: the reason for each status they may come from. Returns how
-- many rows changed.
create function public.fd_move_many_{entity}(
    p_ids uuid[], p_to text, p_actor text, p_reasons jsonb, p_metadata jsonb, p_changes jsonb, p_trace text,
    p_at timestamptz) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  v_at timestamptz;
  v_ids uuid[];
  v_statuses text[];
  v_columns text;
  v_set text := '';
  v_old text := 'null::jsonb';
  v_changes text := $q$'{{}}'::jsonb$q$;
  v_told jsonb;
  v_payloads jsonb;
  v_moved int;
begin
  perform public.fd_only('a move', '{entity}', p_ids[1], p_changes, public.fd_moved_{entity}());
  -- In the order of their keys, so that two sweeps never wait for each other in a circle.
  select array_agg(l.id), array_agg(l.status) into v_ids, v_statuses
    from (select t.id, t.status from public.{table} t where t.id = any(p_ids) and p_reasons ? t.status and t.status <> p_to
           order by t.id for no key update) l;
  v_at := coalesce(p_at, clock_timestamp());
  if p_changes is not null then
    select string_agg(quote_ident(k), ', ') into v_columns from jsonb_object_keys(p_changes) k;
    v_set := format(', (%1$s) = (select %1$s from jsonb_populate_record(null::public.{table}, $5))', v_columns);
    v_old := '(select to_jsonb(o) from public.{table} o where o.id = b.id)';
    v_changes := $q$(select jsonb_object_agg(k, jsonb_build_array(public.fd_compact(m.old_row -> k),
                                                                     public.fd_compact($5 -> k)))
                       from jsonb_object_keys($5) k)$q$;
  end if;
  -- What the hashed bytes (fd_body) of all rows from one status have in common.
  select jsonb_object_agg(key, public.fd_field(key) || public.fd_field(p_to) || public.fd_field_at(v_at)
                               || public.fd_field(p_actor) || public.fd_field(value) || public.fd_field(p_metadata::text)),
         jsonb_object_agg(key, public.fd_payload(key, p_to, p_actor, p_metadata))
    into v_told, v_payloads from jsonb_each_text(p_reasons);
  execute format($q$
    with moved as (
      update public.{table} t set status = $2, version = t.version + 1, status_since = $3 %2$s
        from (select b.id, b.status, %1$s as old_row from unnest($1, $12) b (id, status)) b where t.id = b.id
      returning t.id, t.version, b.status as from_status, b.old_row
    ), entry as (
      select m.id, m.version, m.from_status, p.hash as prev, %3$s as changes
        from moved m join public.tasks_app_auditentry p
          on p.entity_type = '{entity}' and p.entity_id = m.id and p.seq = m.version - 1
      offset 0
    ), body as materialized (
      select e.*, convert_to($9 || public.fd_field(id::text) || public.fd_field(version::text)
                             || ($10 ->> from_status) || public.fd_field(changes::text) || $11
                             || public.fd_field(encode(prev, 'hex')), 'UTF8') as body
        from entry e
    ), written as (
      insert into public.tasks_app_auditentry (entity_type, entity_id, seq, from_status, to_status, at, actor,
          reason, metadata, changes, trace_id, format_version, body, prev_hash, hash)
      select '{entity}', id, version, from_status, $2, $3, $6, $4 ->> from_status, $7, changes, $8, 1, body,
             prev, sha256(body) from body
    )
    insert into public.tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
    select '{entity}.' || $2, '{entity}', id, version, $13 -> from_status, $3 from body
  $q$, v_old, v_set, v_changes) using v_ids, p_to, v_at, p_reasons, p_changes, p_actor, p_metadata, p_trace,
    public.fd_field('1') || public.fd_field('{entity}'), v_told, public.fd_field(p_trace), v_statuses, v_payloads;
  get diagnostics v_moved = row_count;
  return v_moved;
end $$;

create function public.fd_guard_{entity}() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' or tg_op = 'TRUNCATE' then
    perform public.fd_refuse('never_deleted', '{entity}', case when tg_op = 'DELETE' then old.id end, '', '',
                      'a row is never deleted', 'insufficient_privilege');
  end if;
  if new.id is distinct from old.id then
    perform public.fd_refuse('id', '{entity}', old.id, old.status, new.status, 'its id never changes');
  end if;
  if new.status is distinct from old.status then
    if new.version is distinct from old.version + 1 then
      perform public.fd_refuse('version', '{entity}', old.id, old.status, new.status,
        format('version must rise from %s to %s, not to %s', old.version, old.version + 1, new.version));
    end if;
    perform 1 from public.tasks_app_lifecycleedge
      where entity = '{entity}' and from_status = old.status and to_status = new.status;
    if not found then
      perform public.fd_refuse('edge', '{entity}', old.id, old.status, new.status,
        format('no declared edge from %s to %s', old.status, new.status));
    end if;
  elsif new.version is distinct from old.version and new.version is distinct from old.version + 1 then
    perform public.fd_refuse('version', '{entity}', old.id, old.status, new.status,
      format('version must rise from %s to %s, not to %s', old.version, old.version + 1, new.version));
  elsif new.status_since is distinct from old.status_since then
    -- What a note may not change would be changed by a move that goes nowhere.
    perform public.fd_refuse('edge', '{entity}', old.id, old.status, new.status, 'it is so already');
  end if;
  return new;
end $$;

create function public.fd_born_{entity}() returns trigger language plpgsql as $$
begin
  if new.version is distinct from 1 then
    perform public.fd_refuse('born', '{entity}', new.id, '', new.status,
                      format('is born with version 1, not %s', new.version));
  end if;
  if new.status is distinct from '{initial}' then
    -- What people decide and what jobs do is never imported: an approval begins as a question.
    perform 1 from public.tasks_app_import
      where txid = pg_current_xact_id()::text::bigint and '{entity}' in ('campaign', 'deal', 'operation');
    if not found then
      perform public.fd_refuse('born', '{entity}', new.id, '', new.status,
        format('is born {initial}, not %s (only a recorded import may differ)', new.status));
    end if;
  end if;
  return new;
end $$;

create function public.fd_audited_{entity}() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    perform 1 from public.tasks_app_auditentry
      where entity_type = '{entity}' and entity_id = new.id and seq = new.version
        and from_status = old.status and to_status = new.status;
  else
    perform 1 from public.tasks_app_auditentry
      where entity_type = '{entity}' and entity_id = new.id and seq = new.version
        and from_status = '' and to_status = new.status
        and (new.status = '{initial}' or exists (
               select from public.tasks_app_import i
                where i.txid = pg_current_xact_id()::text::bigint and metadata ->> 'import' = i.id::text));
  end if;
  if not found then
    perform public.fd_refuse('audited', '{entity}', new.id, case when tg_op = 'UPDATE' then old.status else '' end,
      new.status, format('its change to %s has no audit entry in this transaction', new.status));
  end if;
  return null;
end $$;

create function public.fd_real_{entity}() returns trigger language plpgsql as $$
begin
  perform 1 from public.{table} t
    where t.id = new.entity_id and (t.version > new.seq or (t.version = new.seq and t.status = new.to_status));
  if not found then
    perform public.fd_refuse('real', '{entity}', new.entity_id, new.from_status, new.to_status,
                      format('audit entry %s tells of a change that was not made', new.seq));
  end if;
  return null;
end $$;

create trigger fd_guard before update of id, status, version on public.{table}
  for each row execute function public.fd_guard_{entity}();
create trigger fd_never_deleted before delete on public.{table}
  for each row execute function public.fd_guard_{entity}();
create trigger fd_never_truncated before truncate on public.{table}
  for each statement execute function public.fd_guard_{entity}();
create trigger fd_born before insert on public.{table}
  for each row execute function public.fd_born_{entity}();
create constraint trigger fd_audited_birth after insert on public.{table}
  deferrable initially deferred for each row execute function public.fd_audited_{entity}();
create constraint trigger fd_audited_change after update of status, version on public.{table}
  deferrable initially deferred for each row when (old.version is distinct from new.version)
  execute function public.fd_audited_{entity}();
create constraint trigger fd_real_{entity} after insert on public.tasks_app_auditentry
  deferrable initially deferred for each row when (new.entity_type = '{entity}')
  execute function public.fd_real_{entity}();
