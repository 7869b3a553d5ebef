"""When the page of a deal would look different."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from tasks_app.desk.live import page_register, signs_by

PAGE = "deal"
# Whatever writes a row, and whichever columns, gives it another xmin or ctid.
_SIGNS = """
select d.id, md5(concat_ws(' ', d.xmin, d.ctid, m.xmin, m.ctid, o.rows, a.rows)) from orders_deal d
  left join orders_dealmirror m on m.deal_id = d.id
 cross join lateral (
   select array_agg(id) as ids, string_agg(xmin || ':' || ctid, ' ' order by id) as rows
     from tasks_app_operation where subject_type = 'deal' and subject_id = d.id) o
 cross join lateral (
   select string_agg(xmin || ':' || ctid, ' ' order by id) as rows from tasks_app_approval
    where (subject_type = 'deal' and subject_id = d.id)
       or (subject_type = 'operation' and subject_id = any(o.ids))) a
 where d.id = any(%s)
"""


def register() -> None:
    """Called when the application starts."""
    page_register(PAGE, deal_signs)


def deal_signs(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Deal to a text that differs wherever the deal, its mirror, its operations or what people are asked
    about them was written; one query."""
    return signs_by(_SIGNS, ids)
