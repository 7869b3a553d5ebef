"""`manage.py decide`: one person's decision on an approval, as in the admin and the API."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q

from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.management.base import DeskCommand, refuse, user_named


class Command(DeskCommand):
    help = "Approves or rejects what waits on a person. A rejection needs a comment."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("approval", help="its reference (APR-2026-000001) or its id")
        parser.add_argument("verdict", choices=Decision.Verdict.values)
        parser.add_argument("--as", dest="username", required=True, metavar="USER", help="who decides")
        parser.add_argument("--comment", default="", metavar="TEXT", help="why; kept with the decision")

    def run(self, **options: Any) -> None:
        user = user_named(options["username"])
        try:
            approval = approval_decide(
                approval_id=_approval_id(options["approval"]),
                user=user,
                verdict=options["verdict"],
                comment=options["comment"],
            )
        except DecisionRefusedError as error:
            refuse(str(error))
        self.answer(
            {
                "approval": approval.reference,
                "title": approval.title,
                "status": approval.status,
                "verdict": options["verdict"],
                "by": user.username,
                "decisions": approval.decisions.count(),
                "quorum": approval.quorum,
            },
            [f"{approval.reference} {approval.title}: {_outcome(approval)}"],
        )


def _approval_id(named: str) -> uuid.UUID:
    """The id behind a reference or an id; whether the user may see it is the service's to say."""
    try:
        wanted = Q(pk=uuid.UUID(named))
    except ValueError:
        wanted = Q(reference=named.upper())
    found = Approval.objects.filter(wanted).values_list("pk", flat=True).first()
    return found or refuse("There is no such approval in your teams.")


def _outcome(approval: Approval) -> str:
    if approval.status == ApprovalStatus.OPEN:
        return f"noted, {approval.decisions.count()} of {approval.quorum} approvals"
    return approval.get_status_display().lower()
