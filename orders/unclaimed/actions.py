"""Buttons of a finding about a media buy: adopt it as a deal, read it again."""

from __future__ import annotations

from orders.mirror import mirror_read_now
from orders.models import LIVE, Deal
from orders.unclaimed.adopt import AdoptionRefusedError, media_buy_adopt
from tasks_app.operations.comparison import Verdict
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
            name="read",
            label="Read it now",
            does="Asks the seller for the media buy once more. Changes nothing there.",
            icon="refresh",
            offered=_readable,
            apply=_read,
        )
    )


def _adoptable(finding: ReconciliationFinding) -> bool:
    """Media buys that were made for a deal of ours are put to people instead (unclaimed_buys.py)."""
    unknown = finding.verdict in (Verdict.BOUGHT_UNKNOWN, Verdict.EXTERNAL)
    return finding.kind == "media_buy" and unknown and bool(finding.told) and finding.subject_id is None


def _adopt(finding: ReconciliationFinding, chosen: Chosen) -> Done:
    if finding.account_id and chosen.account_id not in (None, finding.account_id):
        raise ActionRefusedError("It was listed for another account of ours.")
    account_id = finding.account_id or chosen.account_id
    accounts = Account.objects.filter(seller=finding.seller).select_related("seller", "advertiser__team")
    account = accounts.filter(pk=account_id).first() if account_id else None
    if account is None:
        raise ActionRefusedError("Name the account it is in.")
    try:
        deal = media_buy_adopt(
            account=account, told=finding.told or {}, user=chosen.user, reason=chosen.reason.strip()
        )
    except AdoptionRefusedError as error:
        raise ActionRefusedError(str(error)) from error
    finding.here, finding.subject_type, finding.subject_id = deal.reference, "deal", deal.pk
    return Done(said=f"{finding.theirs} is {deal.reference} now.", resolution=R.ADOPTED)


def _readable(finding: ReconciliationFinding) -> bool:
    here = finding.subject_type == "deal" and finding.status_here in LIVE
    return here and finding.verdict in (Verdict.MISSING, Verdict.BEHIND)


def _read(finding: ReconciliationFinding, _chosen: Chosen) -> Done:
    deal = Deal.objects.get(pk=subject_of(finding))
    if deal.status not in LIVE:
        raise ActionRefusedError(f"{deal.reference} is {deal.status} meanwhile.")
    mirror_read_now(deal=deal)
    return Done(said=f"{deal.reference} is read from {finding.seller} at the next pass.")
