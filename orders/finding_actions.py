"""What a person can do about a media buy that differs: adopt it, read it again, look at the deal."""

from __future__ import annotations

from orders.adopt import AdoptionRefusedError, media_buy_adopt
from orders.mirror import mirror_read_now
from orders.models import LIVE, Deal
from orders.running_on import RUNS_ON, is_ended_by_seller, runs_on_ask
from orders.services import deal_cancel_at_seller, deal_locked
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.operations.comparison import Verdict
from tasks_app.operations.models import Operation
from tasks_app.operations.services import OperationRefusedError
from tasks_app.reconciliation.actions import (
    Action,
    ActionRefusedError,
    Chosen,
    Done,
    action_register,
    subject_of,
)
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.sellers.models import Account

R = ReconciliationFinding.Resolution


def register() -> None:
    """Called when the application starts."""
    action_register(
        Action(
            name="adopt",
            label="Adopt as a deal",
            does="Makes it a deal of the account's advertiser, in its real status. Nothing is sent. Then an "
            "approver accepts it, or has it cancelled at the seller.",
            icon="handshake",
            offered=_adoptable,
            apply=_adopt,
            needs_reason=True,
            needs_account=True,
        )
    )
    action_register(
        Action(
            name="cancel",
            label="Have it cancelled",
            does="Sends update_media_buy with canceled to the seller: here the deal is over already. Where "
            "its seller said so, and no people, an approver decides first.",
            icon="block",
            offered=lambda finding: finding.subject_type == "deal" and finding.verdict == Verdict.AHEAD,
            apply=_cancel,
            needs_reason=True,
        )
    )
    action_register(
        Action(
            name="read",
            label="Read it now",
            does="Asks the seller for the media buy once more. Changes nothing there.",
            icon="refresh",
            offered=_readable,
            apply=_read,
        )
    )


def _adoptable(finding: ReconciliationFinding) -> bool:
    unknown = finding.verdict in (Verdict.BOUGHT_UNKNOWN, Verdict.EXTERNAL)
    return finding.kind == "media_buy" and unknown and bool(finding.told)


def _adopt(finding: ReconciliationFinding, chosen: Chosen) -> Done:
    bought_for = Deal.objects.filter(pk=subject_of(finding)).first() if finding.subject_id else None
    if finding.account_id and chosen.account_id not in (None, finding.account_id):
        raise ActionRefusedError("It was listed for another account of ours.")
    account_id = finding.account_id or chosen.account_id
    accounts = Account.objects.filter(seller=finding.seller).select_related("seller", "advertiser__team")
    account = accounts.filter(pk=account_id).first() if account_id else None
    if account is None:
        raise ActionRefusedError("Name the account it is in.")
    if bought_for is not None and bought_for.advertiser_id != account.advertiser_id:
        raise ActionRefusedError(f"It was bought for {bought_for.advertiser}.")
    try:
        deal = media_buy_adopt(
            account=account,
            told=finding.told or {},
            user=chosen.user,
            reason=chosen.reason.strip(),
            in_place_of=bought_for,
        )
    except AdoptionRefusedError as error:
        raise ActionRefusedError(str(error)) from error
    finding.here, finding.subject_type, finding.subject_id = deal.reference, "deal", deal.pk
    return Done(said=f"{finding.theirs} is {deal.reference} now.", resolution=R.ADOPTED)


def _cancel(finding: ReconciliationFinding, chosen: Chosen) -> Done:
    deal = deal_locked(subject_of(finding))
    if not deal.is_terminal:
        raise ActionRefusedError(f"{deal.reference} is {deal.status} meanwhile.")
    waiting = Operation.objects.filter(
        subject_type="deal", subject_id=deal.pk, task_type="update_media_buy", settled_at__isnull=True
    ).first()
    if waiting is not None:
        raise ActionRefusedError(f"{waiting.reference} asks the seller for a change already.")
    if is_ended_by_seller(deal):
        return _ask_cancelled(deal, chosen)
    try:
        operation = deal_cancel_at_seller(deal=deal, actor=chosen.user, reason=chosen.reason.strip())
    except OperationRefusedError as error:
        raise ActionRefusedError(str(error)) from error
    return Done(said=f"{operation.reference} asks the seller to cancel it.")


def _ask_cancelled(deal: Deal, chosen: Chosen) -> Done:
    """Its seller said that it was over, nobody here: somebody else decides whether it is cancelled."""
    about = {"kind": RUNS_ON, "subject_type": "deal", "subject_id": deal.pk}
    asked = Approval.objects.filter(**about, status=ApprovalStatus.OPEN).first()
    if asked is not None:
        raise ActionRefusedError(f"{asked.reference} asks for that already.")
    asked = runs_on_ask(deal, user=chosen.user, reason=chosen.reason)
    return Done(said=f"{asked.reference}: somebody else decides whether it is cancelled.")


def _readable(finding: ReconciliationFinding) -> bool:
    here = finding.subject_type == "deal" and finding.status_here in LIVE
    return here and finding.verdict in (Verdict.MISSING, Verdict.BEHIND)


def _read(finding: ReconciliationFinding, _chosen: Chosen) -> Done:
    deal = Deal.objects.get(pk=subject_of(finding))
    if deal.status not in LIVE:
        raise ActionRefusedError(f"{deal.reference} is {deal.status} meanwhile.")
    mirror_read_now(deal=deal)
    return Done(said=f"{deal.reference} is read from {finding.seller} at the next pass.")
