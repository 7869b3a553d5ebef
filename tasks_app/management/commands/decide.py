"""`manage.py decide`: what one person does with an approval, as in the admin and the API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q

from tasks_app.approvals.claims import approval_claim, approval_reassign, approval_release
from tasks_app.approvals.counting import given_on
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.notes import VIEW, approval_comment
from tasks_app.approvals.selectors import UNREAD, asked_now
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.management.base import DeskCommand, refuse, user_named
from tasks_app.money import typed_amount
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_CLAIMS: dict[str, Callable[..., Approval]] = {"claim": approval_claim, "release": approval_release}
_SHOW = "show"
_ACTS = (*Decision.Verdict.values, *_CLAIMS, "reassign", "comment", _SHOW)


class Command(DeskCommand):
    help = (
        "Approves or rejects what waits on a person, whole or in part; claims, releases or reassigns it, or "
        "comments on it. A rejection and a comment need --comment; a verdict needs --digest, of what is read "
        "by show."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("approval", help="its reference (APR-2026-000001) or its id")
        parser.add_argument("act", choices=_ACTS, metavar="ACT", help=", ".join(_ACTS))
        parser.add_argument("--as", dest="username", required=True, metavar="USER", help="who does it")
        parser.add_argument("--comment", default="", metavar="TEXT", help="why, or what is said; kept")
        parser.add_argument("--digest", default="", metavar="SHA256", help="of the evidence that was read")
        parser.add_argument("--for", dest="principal", metavar="USER", help="whom they stand in for")
        parser.add_argument("--to", metavar="USER", help="reassign: to whom")
        parser.add_argument(
            "--line",
            action="append",
            default=[],
            metavar="N=BUDGET",
            help="approve in part: another budget for line N as shown, 0 leaves it out; may be repeated",
        )

    def run(self, **options: Any) -> None:
        user, approval_id = user_named(options["username"]), _approval_id(options["approval"])
        if options["act"] == _SHOW:
            self._show(approval_id, user)
            return
        try:
            approval = _act(approval_id, user, options)
        except DecisionRefusedError as error:
            refuse(f"{error}{_asked(approval_id, user) if error.code in UNREAD else ''}")
        self.answer(
            {
                "approval": approval.reference,
                "title": approval.title,
                "status": approval.status,
                "verdict": options["act"],
                "by": user.username,
                "decisions": approval.decisions.count(),
                "quorum": approval.quorum,
                "claimed_by": approval.claimed_by,
                "claimed_until": approval.claimed_until,
            },
            [f"{approval.reference} {approval.title}: {_outcome(approval, options['act'])}"],
        )

    def _show(self, approval_id: uuid.UUID, user: User) -> None:
        found = visible(Approval.objects.all(), user).filter(pk=approval_id).first()
        if found is None or not user.has_perm(VIEW):
            refuse("There is no such approval in your teams.")
        shown = {
            "approval": found.reference,
            "title": found.title,
            "status": found.status,
            "evidence": found.evidence,
            "digest": found.evidence_digest,
        }
        evidence = json.dumps(found.evidence, ensure_ascii=False, indent=2)
        self.answer(
            shown, [f"{found.reference} {found.title}", evidence, f"--digest {found.evidence_digest}"]
        )


def _act(approval_id: uuid.UUID, user: User, options: dict[str, Any]) -> Approval:
    act, comment = options["act"], options["comment"]
    if act in _CLAIMS:
        return _CLAIMS[act](approval_id=approval_id, user=user)
    if act == "reassign":
        if not options["to"]:
            refuse("Say to whom: --to USER.")
        to = user_named(options["to"])
        return approval_reassign(approval_id=approval_id, user=user, to=to, comment=comment)
    if act == "comment":
        return approval_comment(approval_id=approval_id, user=user, body=comment).approval
    principal = options["principal"]
    currency = Approval.objects.values_list("currency", flat=True).get(pk=approval_id)
    return approval_decide(
        approval_id=approval_id,
        user=user,
        verdict=act,
        comment=comment,
        expected_digest=options["digest"],
        on_behalf_of=user_named(principal) if principal else None,
        budgets=_budgets(options["line"], currency),
    )


def _asked(approval_id: uuid.UUID, user: User) -> str:
    """What is asked now, and the digest that says so."""
    approval = Approval.objects.get(pk=approval_id)
    now = asked_now([approval], user).get(approval.pk)
    return f" Asked now: {now.reference} {now.title}, --digest {now.evidence_digest}" if now else ""


def _budgets(lines: list[str], currency: str) -> dict[int, Decimal]:
    budgets = dict(_budget(line, currency) for line in lines)
    if len(budgets) != len(lines):
        refuse("Name each line once.")
    return budgets


def _budget(line: str, currency: str) -> tuple[int, Decimal]:
    number, _, text = line.partition("=")
    try:
        if number.isdecimal():
            return int(number), typed_amount(text, currency)
        raise ValueError("it names no line")
    except ValueError as error:
        refuse(f"{line!r} is no line and budget, such as 2=50000.00: {error}")


def _approval_id(named: str) -> uuid.UUID:
    """The id behind a reference or an id; whether the user may see it is the service's to say."""
    try:
        wanted = Q(pk=uuid.UUID(named))
    except ValueError:
        wanted = Q(reference=named.upper())
    found = Approval.objects.filter(wanted).values_list("pk", flat=True).first()
    return found or refuse("There is no such approval in your teams.")


def _outcome(approval: Approval, act: str) -> str:
    if act not in Decision.Verdict.values:
        return {"claim": "claimed", "release": "released", "reassign": "reassigned"}.get(act, "commented")
    if approval.status == ApprovalStatus.OPEN:
        return f"noted, {given_on(approval)} of {approval.quorum} approvals"
    return approval.get_status_display().lower()
