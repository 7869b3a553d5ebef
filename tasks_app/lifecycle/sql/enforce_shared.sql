-- What every entity's enforcement uses.

create or replace function fd_body(
    p_entity text, p_id uuid, p_seq int, p_from text, p_to text, p_at timestamptz, p_actor text,
    p_reason text, p_metadata jsonb, p_changes jsonb, p_trace text, p_prev bytea) returns bytea
language sql stable parallel safe as $$
  select convert_to(
      fd_field('1') || fd_field(p_entity) || fd_field(p_id::text) || fd_field(p_seq::text)
      || fd_field(p_from) || fd_field(p_to)
      || fd_field((extract(epoch from p_at) * 1000000)::bigint::text)
      || fd_field(p_actor) || fd_field(p_reason) || fd_field(p_metadata::text)
      || fd_field(p_changes::text) || fd_field(p_trace) || fd_field(encode(p_prev, 'hex')), 'UTF8')
$$;

-- The transaction an import was recorded in; nobody states it for himself.
create or replace function fd_import_txid() returns trigger language plpgsql as $$
begin
  new.txid := pg_current_xact_id()::text::bigint;
  return new;
end $$;
create or replace trigger import_txid before insert on tasks_app_import
  for each row execute function fd_import_txid();
create or replace trigger import_rows before update or delete on tasks_app_import
  for each row execute function fd_append_only();
create or replace trigger import_truncate before truncate on tasks_app_import
  for each statement execute function fd_append_only();

create or replace trigger rule_rows before update or delete on tasks_app_lifecyclerule
  for each row execute function fd_append_only();
create or replace trigger rule_truncate before truncate on tasks_app_lifecyclerule
  for each statement execute function fd_append_only();

do $$ begin
  if exists (select from pg_roles where rolname = 'flightdeck_app') then
    revoke insert, update, delete, truncate on tasks_app_lifecycleedge from flightdeck_app;
    revoke update, delete, truncate on tasks_app_import, tasks_app_lifecyclerule from flightdeck_app;
  end if;
end $$;
