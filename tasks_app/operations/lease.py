"""A call that is out with a seller."""

from __future__ import annotations

from django.db import models

from tasks_app.desk import text
from tasks_app.ids import new_id
from tasks_app.sellers.models import Seller


class CallLease(models.Model):
    """One of its seller's slots, taken until the call ends or its worker no longer renews it.

    A narrow table of its own: claims write hundreds at once, and an operation is a row of many columns.
    `id` is the operation's; a reading that is no operation has an id of its own.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    # Unchecked: the check would lock the seller's row once more for each, which the claim holds anyway.
    seller = models.ForeignKey(
        Seller, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    # Whose it is: an operation whose lease ran out is called again, and the older call may still end. Those
    # that are claimed together share it.
    call = models.UUIDField(default=new_id, editable=False)
    until = models.DateTimeField()  # in no index, so that renewing it writes none

    def __str__(self) -> str:
        return f"{self.id} until {text.moment_kept(self.until)}"
