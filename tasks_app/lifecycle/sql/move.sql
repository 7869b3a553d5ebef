-- One status change of one entity, in one round trip: lock, status and version check, the row, its
-- audit entry and its outbox event. Answers when it happened, null when somebody else moved the entity first.
-- It runs as its owner, who alone may write entries: so no entry comes but beside the change it tells of.
drop function if exists
  public.fd_move_{entity}(uuid, text, text, int, text, text, jsonb, jsonb, text, timestamptz);
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

-- What changes without the status, with its entry: an entry from the status to itself, and the next version.
-- Answers when, null when somebody else changed the row first.
create or replace function public.fd_note_{entity}(
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

-- The first entry of rows that were inserted in this transaction, as they are; answers how many.
create or replace function public.fd_birth_{entity}(
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

-- Room on every page for a row's next version: a status change then touches none of the indexes (HOT).
alter table public.{table} set (fillfactor = 70);
