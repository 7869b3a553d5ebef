"""When the page of a campaign would look different."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from tasks_app.desk.live import page_register, signs_by

PAGE = "campaign"
# Whatever writes a row, and whichever columns, gives it another xmin or ctid. What a job does is an event.
_SIGNS = """
select c.id, md5(concat_ws(
         ' ', c.xmin, c.ctid, d.rows, u.rows, o.rows, a.rows, g.rows, f.rows, j.id, j.xmin, j.ctid, e.id))
  from campaigns_campaign c
 cross join lateral (
   select array_agg(id) as ids, array_agg(account_id) as accounts,
          string_agg(xmin || ':' || ctid, ' ' order by id) as rows
     from orders_deal where campaign_id = c.id) d
 cross join lateral (
   select string_agg(xmin || ':' || ctid, ' ' order by id) as rows
     from tasks_app_account where id = any(d.accounts)) u
 cross join lateral (
   select array_agg(id) as ids, string_agg(xmin || ':' || ctid, ' ' order by id) as rows
     from tasks_app_operation where subject_type = 'deal' and subject_id = any(d.ids)) o
 cross join lateral (
   select string_agg(xmin || ':' || ctid, ' ' order by id) as rows from tasks_app_approval
    where (subject_type = 'deal' and subject_id = any(d.ids))
       or (subject_type = 'operation' and subject_id = any(o.ids))) a
 cross join lateral (
   select string_agg(a.xmin || ':' || a.ctid, ' ' order by a.id) as rows
     from tasks_app_command c join tasks_app_approval a
       on a.subject_type = 'command' and a.subject_id = c.id
    where c.subject_type = 'deal' and c.subject_id = any(d.ids)) g
 cross join lateral (
   select string_agg(a.xmin || ':' || a.ctid, ' ' order by a.id) as rows
     from tasks_app_conflict c join tasks_app_approval a
       on a.subject_type = 'conflict' and a.subject_id = c.id
    where c.operation_id = any(o.ids)) f
  left join lateral (
   select id, xmin, ctid from tasks_app_job
    where subject_type = 'campaign' and subject_id = c.id and parent_step_id is null
    order by id desc limit 1) j on true
  left join lateral (
   select id from tasks_app_workflowevent where job_id = j.id order by id desc limit 1) e on true
 where c.id = any(%s)
"""


def register() -> None:
    """Called when the application starts."""
    page_register(PAGE, campaign_signs)


def campaign_signs(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Campaign to a text that differs wherever it, its job, its deals, their accounts, their operations or
    what people are asked about them was written; one query."""
    return signs_by(_SIGNS, ids)
