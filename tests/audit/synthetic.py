"""A long trail, quickly: many steps of one job, each with a chain of the same length, written by SQL.

Their ids rise with time, as those of real entities do (UUIDv7); their entries come in rounds, a move of each.
"""

from __future__ import annotations

import psycopg

_STEPS = """
insert into tasks_app_step
select (jsonb_populate_record(one.s, jsonb_build_object('id', {id}, 'key', 'synthetic-' || n,
        'status', case when %(length)s = 1 then 'received' when %(length)s = 2 then 'queued'
                       when %(length)s %% 2 = 1 then 'executing' else 'awaiting_tool' end,
        'version', %(length)s::int))).*
  from (select s from tasks_app_step s limit 1) one, generate_series(1, %(chains)s) n
"""
_ID = """overlay(overlay(gen_random_uuid()::text placing '7' from 15) placing
         to_char(n / 10000, 'FM00000000') || '-' || to_char(n % 10000, 'FM0000') from 1)::uuid"""
_ENTRIES = """
with told as (
  select e.id, case %(seq)s when 1 then '' when 2 then 'received' when 3 then 'queued'
                    else case when %(seq)s %% 2 = 1 then 'awaiting_tool' else 'executing' end end as frm,
         case %(seq)s when 1 then 'received' when 2 then 'queued'
              else case when %(seq)s %% 2 = 1 then 'executing' else 'awaiting_tool' end end as into_,
         clock_timestamp() as at, 'A worker takes it – ' || %(seq)s as reason,
         jsonb_build_object('attempt', %(seq)s::int, 'note', 'köp') as metadata,
         jsonb_build_object('attempts', jsonb_build_array(%(seq)s - 1, %(seq)s::int),
                            'lease_until', jsonb_build_array('2026-11-20T09:00:00+00:00', null)) as changes,
         coalesce((select hash from tasks_app_auditentry p where p.entity_type = 'step'
                      and p.entity_id = e.id and p.seq = %(seq)s - 1), ''::bytea) as prev
    from tasks_app_step e where e.key like 'synthetic-%%'
), bodies as (
  select *, fd_body('step', id, %(seq)s, frm, into_, at, 'agent:worker', reason, metadata, changes,
                    'ab12cd34', prev) as body from told
)
insert into tasks_app_auditentry (entity_type, entity_id, seq, from_status, to_status, at, actor, reason,
    metadata, changes, trace_id, format_version, body, prev_hash, hash)
select 'step', id, %(seq)s, frm, into_, at, 'agent:worker', reason, metadata, changes, 'ab12cd34', 1, body,
       prev, sha256(body) from bodies
"""


def fill(admin: psycopg.Connection, *, chains: int, length: int) -> None:
    """Add `chains` steps like the one that is there, with `length` entries each. `admin` is a superuser's."""
    admin.execute("set session_replication_role = replica")
    admin.execute(_STEPS.replace("{id}", _ID.replace("%", "%%")), {"chains": chains, "length": length})
    for seq in range(1, length + 1):
        admin.execute(psycopg.sql.SQL(_ENTRIES.replace("%(seq)s", str(seq)).replace("%%", "%")))
    admin.execute("analyze tasks_app_auditentry, tasks_app_step")
