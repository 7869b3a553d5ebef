"""When the page of a deal would look different."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from tasks_app.desk.live import page_register, signs_by

PAGE = "deal"
# Whatever writes a row, and whichever columns, gives it another xmin or ctid.
_SIGNS = """
select d.id, md5(concat_ws(
         ' ', d.xmin, d.ctid, m.xmin, m.ctid, u.xmin, u.ctid, o.rows, a.rows, g.rows, f.rows))
  from orders_deal d
  left join orders_dealmirror m on m.deal_id = d.id
  left join tasks_app_account u on u.id = d.account_id
 cross join lateral (
   select array_agg(id) as ids, string_agg(xmin || ':' || ctid, ' ' order by id) as rows
     from tasks_app_operation where subject_type = 'deal' and subject_id = d.id) o
 cross join lateral (
   select string_agg(xmin || ':' || ctid, ' ' order by id) as rows from tasks_app_approval
    where (subject_type = 'deal' and subject_id = d.id)
       or (subject_type = 'operation' and subject_id = any(o.ids))) a
 cross join lateral (
   select string_agg(a.xmin || ':' || a.ctid, ' ' order by a.id) as rows
     from tasks_app_command c join tasks_app_approval a
       on a.subject_type = 'command' and a.subject_id = c.id
    where c.subject_type = 'deal' and c.subject_id = d.id) g
 cross join lateral (
   select string_agg(a.xmin || ':' || a.ctid, ' ' order by a.id) as rows
     from tasks_app_conflict c join tasks_app_approval a
       on a.subject_type = 'conflict' and a.subject_id = c.id
    where c.operation_id = any(o.ids)) f
 where d.id = any(%s)
"""


def register() -> None:
    """Called when the application starts."""
    page_register(PAGE, deal_signs)


def deal_signs(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Deal to a text that differs wherever the deal, its mirror, its account, its operations or what people
    are asked about them was written; one query."""
    return signs_by(_SIGNS, ids)
