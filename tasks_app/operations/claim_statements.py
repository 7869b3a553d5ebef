"""The statements by which calls are claimed: what holds the sellers of whom something is due, and what leases
it; with how each is planned (decision 0023)."""

from __future__ import annotations

from typing import Literal

from tasks_app.commands.gates import SELLER
from tasks_app.database_clock import DATABASE_NOW
from tasks_app.sellers.models import Seller, SellerBreaker

Column = Literal["send_at", "next_poll_at"]
_IS_DUE = """t.{column} <= %(by)s and t.status = any(%(statuses)s)
        and t.id not in (select l.id from {out})
        and t.id not in (select r.row from tasks_app_rowtrouble r
                          where r.work = %(work)s and r.again_at > %(now)s)
        and t.id <> all(%(mine)s::uuid[])"""
_DUE: dict[Column, str] = {
    "next_poll_at": _IS_DUE,
    "send_at": _IS_DUE + " and (%(only)s::uuid is null or t.id = %(only)s)",
}
_TO_LOOK_AT, _TO_SEND = (due.format(column=column, out="live l") for column, due in _DUE.items())
SELLER_FIELDS = [field for field in Seller._meta.concrete_fields if field.name != "capabilities"]
BREAKER_FIELDS = list(SellerBreaker._meta.concrete_fields)
_SELLER = ", ".join(f"s.{field.column}" for field in SELLER_FIELDS)
_BREAKER = ", ".join(f"b.{field.column}" for field in BREAKER_FIELDS)


def _planning(**values: str | None) -> str:
    """What sets these until the transaction's end; None: as the session began."""
    told = {name: "null" if value is None else f"'{value}'" for name, value in values.items()}
    return " || ' ' || ".join(f"set_config('{name}', {value}, true)" for name, value in told.items())


# Until the next ANALYZE the planner may take a crowd that became due for a few rows, and then it prefers to
# read and sort all of them to the index's own order, of which only the first are read. So looks are planned
# for that order whatever it knows, and once. Sends come in no index's order: each claim is planned for its
# moment, for one plan for all takes a third of everything for due, and walks all that a seller ever had.
# The same goes for the statement that holds the sellers. The claim sets it back, for what its transaction
# reads then; to what it was when the session began. Nothing is compiled: before PostgreSQL 18 a sort that is
# forbidden and made all the same counts as a very long one.
AS_EVER = _planning(enable_bitmapscan=None, enable_sort=None, jit=None, plan_cache_mode=None)
PLANS: dict[Column, str] = {
    "next_poll_at": _planning(enable_sort="off", jit="off", plan_cache_mode="force_generic_plan"),
    "send_at": _planning(enable_bitmapscan="off", jit="off", plan_cache_mode="force_custom_plan"),
}
# Lateral with a limit: one look into the index for each seller, however much is due. The order says so to the
# planner whatever it knows. Whether a lease ran out is asked of anybody's: one that runs out after this
# statement is live to the claim, which goes by the time that is read here, and left to the next.
_HELD = f"""
select {DATABASE_NOW},
       exists (select from tasks_app_calllease l where l.until < {DATABASE_NOW}), held.*
  from (
    select s.id, s.slots, s.active, {_SELLER}, {_BREAKER}
      from tasks_app_seller s left join tasks_app_sellerbreaker b on b.seller_id = s.id
     cross join lateral (
       select from tasks_app_operation t where t.seller_id = s.id and {{due}}
        order by t.{{column}} limit 1) o
     order by s.id for no key update of s skip locked) held
"""  # noqa: S608
_OUT = f"tasks_app_calllease l where l.until >= {DATABASE_NOW}"
TO_CALL = {
    column: _HELD.format(due=due.format(column=column, out=_OUT), column=column)
    for column, due in _DUE.items()
}
# What people let pass although its seller is off, as it is to be sent.
LET_PASS = f"""
select t.id, t.seller_id
  from tasks_app_operation t join tasks_app_command c on c.key = t.purpose
 where t.seller_id = any(%(off)s::uuid[]) and {_DUE["send_at"].format(column="send_at", out=_OUT)}
   and c.overrides @> '["{SELLER}"]'
 order by t.priority, t.turn_at, t.id
"""  # noqa: S608
# Waited for, so that what is read of it then is read after whoever held it.
SELLER_OF = """
select from tasks_app_seller where id = (select seller_id from tasks_app_operation where id = %s)
   for no key update
"""
# Calls that are out are counted when their sellers are held: the statement before may have missed a claim
# that ended as it began. `free`: how many more calls each seller gets, no more than its slots leave.
_FREE = """
with live as materialized (select l.id, l.seller_id from tasks_app_calllease l where l.until >= %(at)s),
free as materialized (
  select s.seller, s.seller_id, greatest(0, least(s.free, s.slots - coalesce(b.calls, 0))) as free
    from unnest(%(sellers)s::uuid[], %(free)s::int[], %(slots)s::int[])
           with ordinality s (seller_id, free, slots, seller)
    left join (select seller_id, count(*) as calls from live group by seller_id) b
      on b.seller_id = s.seller_id)"""
# A lease that ran out is taken over, for this call: the older one's answer gives nothing of it back. Where
# none has run out nobody looks for one, which is half of what it takes to write a lease.
_TAKEN_OVER = "on conflict (id) do update set call = excluded.call, until = excluded.until"
_LEASE = f"""leased as (
  insert into tasks_app_calllease (id, seller_id, call, until)
      select id, seller_id, %(call)s::uuid, {DATABASE_NOW} + make_interval(secs => %(lease_s)s) from due
      {{taken_over}})
select d.seller, d.id, d.task_id, d.task_type, d.webhook_token,
       (select a.reference from tasks_app_account a where a.id = d.account_id)
  from due d
 where (select {AS_EVER}) is not null
 order by d.place
"""  # noqa: S608


def _leasing(picks: str) -> dict[bool, str]:
    """The statement that leases what it picks, by whether leases of its sellers have run out."""
    return {True: picks.replace("{taken_over}", _TAKEN_OVER), False: picks.replace("{taken_over}", "")}


_COLUMNS = "s.seller, t.id, t.seller_id, t.task_id, t.task_type, t.webhook_token, t.account_id"
# Looks come in the index's own order, so that no more of them are read than there is room for. Nothing locks
# them: a look may as well find that somebody has moved its operation.
LOOKS = _leasing(f"""{_FREE},
due as (
  select o.* from free s cross join lateral (
     select {_COLUMNS}, t.next_poll_at as place from tasks_app_operation t
      where t.seller_id = s.seller_id and {_TO_LOOK_AT}
      order by t.next_poll_at limit s.free) o
   order by o.place limit %(limit)s),
{_LEASE}""")  # noqa: S608
# What is sent is locked. Aged work, by its turn, has so many of a seller's slots; the others, and what it
# leaves, go by priority, then turn. Both take turns in the order of calls too, which the limit cuts.
SENDS = _leasing(f"""{_FREE},
aged as (
  select o.* from free s cross join lateral (
     select {_COLUMNS}, t.turn_at from tasks_app_operation t
      where t.seller_id = s.seller_id and {_TO_SEND} and t.turn_at <= %(aged)s
      order by t.turn_at, t.id limit (s.free + 1 - (%(odd)s::int[])[s.seller]) / 2
        for no key update skip locked) o),
rest as (
  select o.* from free s cross join lateral (
     select {_COLUMNS}, t.turn_at, t.priority from tasks_app_operation t
      where t.seller_id = s.seller_id and {_TO_SEND} and t.id not in (select a.id from aged a)
      order by t.priority, t.turn_at, t.id
      limit s.free - (select count(*) from aged a where a.seller_id = s.seller_id)
        for no key update skip locked) o),
due as (
  select seller, id, seller_id, task_id, task_type, webhook_token, account_id,
         2 * row_number() over (order by turn_at, id) - %(aged_first)s::int as place from aged
  union all
  select seller, id, seller_id, task_id, task_type, webhook_token, account_id,
         2 * row_number() over (order by priority, turn_at, id) - 1 + %(aged_first)s::int from rest
   order by place limit %(limit)s),
{_LEASE}""")  # noqa: S608
