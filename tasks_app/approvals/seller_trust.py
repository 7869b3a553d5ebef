"""The question whether to believe a seller in another way: asked of somebody other than who wants it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

from django.core.exceptions import ValidationError
from django.urls import reverse

from tasks_app.approvals.around import Detail, Place, around_register
from tasks_app.approvals.explain import question_mover, question_pending
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import DecisionRefusedError, approval_open
from tasks_app.approvals.subjects import questions_withdraw
from tasks_app.desk.explain import Mover
from tasks_app.lifecycle.transitions import Who
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.people.actors import SYSTEM, actor_names
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.sellers.columns import Row, trusted_of
from tasks_app.sellers.models import SECRET_COLUMNS, Account, TrustChange
from tasks_app.sellers.trust import (
    Approvers,
    approvers_register,
    trust_apply,
    trust_before,
    trust_locked,
    trust_refuse,
    trust_row,
)

KIND = "seller_trust"
_CHANGES = ("tasks_app.change_seller", "tasks_app.change_account")
_SUBJECT = "seller_change"


def register() -> None:
    """Called when the application starts."""
    approvers_register(
        Approvers(
            ask=lambda change: _ask(change, opened_by=change.asked_by),
            withdraw=_withdraw,
            tell=_tell,
            deciding=_deciding,
        )
    )
    around_register(
        _SUBJECT, places=_places, detail=lambda pk, viewer: Detail(place=_places([pk], viewer)[pk])
    )
    kind_register(
        Kind(
            name=KIND,
            label="Whom we believe",
            apply=_apply,
            version=_version,
            asks=lambda approval: _question(TrustChange.objects.get(pk=approval.subject_id)),
            reopen=_reopen,
            effects={
                "approve": "The new values hold from then on, also for what is under way.",
                "reject": "Nothing changes.",
                "nothing": "Nothing changes: the present values stand. Waiting never approves.",
            },
            outlives_job=True,
            set_off=False,
            wished=True,
        )
    )


def trust_question(change: TrustChange) -> Approval | None:
    """The open question about a change."""
    asked = Approval.objects.filter(kind=KIND, subject_type=_SUBJECT, subject_id=change.pk)
    return asked.filter(status=ApprovalStatus.OPEN).first()


def _deciding(change: TrustChange) -> tuple[Mover, ...]:
    question = trust_question(change)
    pending = question_pending([question] if question else [])
    return (question_mover(pending),) if pending else ()


def _ask(change: TrustChange, opened_by: Who = SYSTEM) -> None:
    """Ask for a second person's approval of a change."""
    approval_open(question=_question(change), requested_by=change.asked_by, opened_by=opened_by)


def _question(change: TrustChange) -> Question:
    row: Row = change.account or change.seller
    # In an order of our own: JSON comes back from the database in another.
    labels = {name: known.label for name, known in trusted_of(row).items() if name in change.after}
    return Question(
        kind=KIND,
        team=change.account.advertiser.team if change.account else None,
        title=f"Change {change.account or change.seller}: {', '.join(labels.values()).lower()}",
        subject_type=_SUBJECT,
        subject_id=change.pk,
        subject_version=change.round,
        evidence={
            "seller": change.seller.name,
            **({"account of": change.account.advertiser.name} if change.account else {}),
            "reason": change.reason,
            **{label: f"{change.before[name]} → {change.after[name]}" for name, label in labels.items()},
        },
        policy="What decides whom we believe: somebody else approves",
    )


def _withdraw(change: TrustChange, reason: str, actor: Who) -> None:
    questions_withdraw(_SUBJECT, change.pk, kinds=(KIND,), reason=reason, actor=actor, rights=_CHANGES)


def _tell(row: Row, pairs: Mapping[str, tuple[str, str]], actor: str) -> None:
    """Those who decide hear of what one person changed alone: switched off, revoked, rotated."""
    known = trusted_of(row)
    lines = [
        f"{known[name].label if name in known else name.replace('_', ' ').capitalize()}: {before} → {after}."
        for name, (before, after) in pairs.items()
    ]
    account = row if isinstance(row, Account) else None
    advertiser = account.advertiser if account else None
    what = f"The account of {advertiser} with {account.seller}" if account else str(row)
    notify(
        kind="seller_changed",
        title=f"{what} was changed by {actor_names({actor})[actor]}",
        body="\n".join(lines),
        level=Notification.Level.WARNING,
        about=About(type="account" if account else "seller", id=row.pk),
        team=advertiser.team if advertiser else None,
        advertiser_id=advertiser.pk if advertiser else None,
        right=DECIDE,
        not_for=actor,
    )


def _apply(approval: Approval, outcome: Outcome) -> None:
    change = trust_locked(approval.subject_id)
    if change is None:
        return
    if outcome.answer != "approved":
        trust_refuse(change, actor=outcome.actor, why=outcome.comment)
        return
    try:
        trust_apply(change, actor=outcome.actor, reference=approval.reference)
    except ValidationError as error:
        raise DecisionRefusedError(
            "impossible", f"It cannot be written: {' '.join(error.messages)}"
        ) from error


def _version(approval: Approval) -> int | None:
    """The round it was asked in, while what it would change stands as it was shown."""
    change = trust_locked(approval.subject_id)
    if change is None:
        return None
    return change.round + (trust_before(change, trust_row(change)) != change.before)


def _reopen(approval: Approval) -> None:
    change = trust_locked(approval.subject_id)
    if change is not None:
        change.before, change.round = trust_before(change, trust_row(change)), change.round + 1
        change.save(update_fields=["before", "round"])
        _ask(change)


def _places(changes: Collection[uuid.UUID], viewer: User) -> dict[uuid.UUID, Place]:
    found = TrustChange.objects.filter(pk__in=changes).select_related("seller")
    return {
        one.pk: Place(
            reference=one.seller.name, link=reverse("admin:tasks_app_seller_change", args=[one.seller_id])
        )
        for one in found.defer(*(f"seller__{name}" for name in SECRET_COLUMNS))
    }
