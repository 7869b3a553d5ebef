-- What every entity's enforcement uses.

-- The transaction an import was recorded in; nobody states it for himself.
create or replace function public.fd_import_txid() returns trigger language plpgsql as $$
begin
  new.txid := pg_current_xact_id()::text::bigint;
  return new;
end $$;
create or replace trigger import_txid before insert on public.tasks_app_import
  for each row execute function public.fd_import_txid();
create or replace trigger import_rows before update or delete on public.tasks_app_import
  for each row execute function public.fd_append_only();
create or replace trigger import_truncate before truncate on public.tasks_app_import
  for each statement execute function public.fd_append_only();

create or replace trigger rule_rows before update or delete on public.tasks_app_lifecyclerule
  for each row execute function public.fd_append_only();
create or replace trigger rule_truncate before truncate on public.tasks_app_lifecyclerule
  for each statement execute function public.fd_append_only();

-- What moves or is noted changes the columns that are named for it, and no other.
create or replace function public.fd_only(
    p_what text, p_entity text, p_id uuid, p_changes jsonb, p_named text[]) returns void
language plpgsql as $$
begin
  if p_changes - p_named <> '{}' then
    perform public.fd_refuse('changes', p_entity, p_id, '', '', p_what || ' does not change ' || (
      select string_agg(k, ', ' order by k) from jsonb_object_keys(p_changes - p_named) k));
  end if;
end $$;
