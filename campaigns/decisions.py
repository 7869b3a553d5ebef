"""One word on everything that a campaign puts to people, or which part of it is to be bought: decided one by
one, each reported; parts of one whole together or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from django.db import transaction

from campaigns.models import Campaign
from orders.models import Deal
from orders.questions import DEAL
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.selectors import UNREAD, asked_now
from tasks_app.approvals.services import DecisionRefusedError, approval_check, approval_decide
from tasks_app.approvals.together import code_of, decided_alone, words_of
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.people.models import User

# Approval to the digest of what was shown of it.
Shown = Mapping[uuid.UUID, str]
# Approval to its lines' budgets by number as shown (from 1), 0 without the line; empty: as recommended.
Parts = Mapping[uuid.UUID, Mapping[int, Decimal]]
NOT_DECIDED = "not_decided"  # the code of what was not decided because another part was refused
_APPROVE, _REJECT = Decision.Verdict.APPROVE, Decision.Verdict.REJECT


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What became of one approval: its status now, and why it was not decided (empty: it was). Approved in
    part, it is the one that was asked in the place of what was recommended. `now`: what is asked now, where
    the decision was on something else, or on nothing that was said to be read."""

    approval: Approval
    deal: Deal
    refused: str = ""
    code: str = ""
    now: Approval | None = None


@dataclass(frozen=True, kw_only=True)
class _Word:
    """One decision that is to be made, and on what."""

    approval: Approval
    deal: Deal
    verdict: str
    digest: str
    budgets: Mapping[int, Decimal]


class _PartRefusedError(Exception):
    """One of several that belong together was refused: none is decided."""

    def __init__(self, refused: Decided) -> None:
        self.refused = refused
        super().__init__(refused.refused)


def campaign_asked(campaign: Campaign, kind: str = DEAL) -> list[Approval]:
    """Every open approval of one kind about the campaign's deals."""
    deals = Deal.objects.filter(campaign_id=campaign.pk).values("pk")
    asked = Approval.objects.filter(kind=kind, subject_type="deal", subject_id__in=deals)
    return list(asked.filter(status=ApprovalStatus.OPEN).order_by("id"))


def campaign_decide(
    *,
    campaign: Campaign,
    user: User,
    verdict: str,
    shown: Shown,
    comment: str = "",
    kind: str = DEAL,
    on_behalf_of: User | None = None,
    parts: Parts | None = None,
) -> list[Decided]:
    """Decide every open approval of one kind about the campaign's deals, recommendations unless said; each on
    what was `shown` of it, and none that was not. Each is a decision of its own (`approval_decide`); one that
    is refused stops no other.

    `parts`, with the verdict to approve: what is named is approved, with its budgets, and the rest rejected;
    that first, as it frees their money. These are one decision: all is checked before anything changes, and
    where one is refused none is made.

    Raises DecisionRefusedError before any is made: `comment` where a rest is to be rejected without a reason,
    `not_found` for a part that is none of the campaign's, `impossible` for parts to reject.
    """
    found = campaign_asked(campaign, kind)
    deals = {deal.pk: deal for deal in Deal.objects.filter(campaign_id=campaign.pk)}

    def word(one: Approval, said: str, budgets: Mapping[int, Decimal]) -> _Word:
        deal = deals[one.subject_id]
        return _Word(approval=one, deal=deal, verdict=said, digest=shown.get(one.pk, ""), budgets=budgets)

    if parts is None:
        done = [_decide_alone(word(one, verdict, {}), user, comment, on_behalf_of) for one in found]
    else:
        _check_parts(found, parts, verdict, comment)
        rest = [word(one, _REJECT.value, {}) for one in found if one.pk not in parts]
        wanted = rest + [word(one, _APPROVE.value, parts[one.pk]) for one in found if one.pk in parts]
        done = _checked(wanted, user, comment, on_behalf_of) or _decide_all(
            wanted, user, comment, on_behalf_of
        )
    return _as_asked_now(done, user)


def _check_parts(found: list[Approval], parts: Parts, verdict: str, comment: str) -> None:
    if verdict != _APPROVE:
        raise DecisionRefusedError("impossible", "Parts are approved; the rest is rejected with them.")
    unknown = set(parts) - {one.pk for one in found}
    if unknown:
        raise DecisionRefusedError("not_found", f"{min(unknown)} is no open approval of this campaign.")
    if len(parts) < len(found) and not comment.strip():
        raise DecisionRefusedError("comment", "Say why you reject the rest.")


def _checked(
    wanted: Sequence[_Word], user: User, comment: str, on_behalf_of: User | None
) -> list[Decided] | None:
    """None where every decision would be taken, apart from its amounts; else nothing is, and why."""
    refused = []
    for word in wanted:
        try:
            approval_check(
                approval_id=word.approval.pk,
                user=user,
                verdict=word.verdict,
                comment=comment,
                expected_digest=word.digest,
                on_behalf_of=on_behalf_of,
            )
        except (DecisionRefusedError, TransitionError) as error:
            refused.append(_refused(word, error))
    return _none_decided(wanted, refused) if refused else None


def _decide_all(
    wanted: Sequence[_Word], user: User, comment: str, on_behalf_of: User | None
) -> list[Decided]:
    """All in one commit, or none."""
    done = []
    try:
        with transaction.atomic():
            _hold(wanted)
            for word in wanted:
                one = _decide(word, user, comment, on_behalf_of)
                if one.refused:
                    raise _PartRefusedError(one)
                done.append(one)
    except _PartRefusedError as error:
        return _none_decided(wanted, [error.refused])
    return done


def _hold(wanted: Sequence[_Word]) -> None:
    """In the order in which everybody holds several."""
    held = Approval.objects.filter(pk__in=[word.approval.pk for word in wanted]).order_by("pk")
    list(held.select_for_update(no_key=True).values_list("pk"))


def _none_decided(wanted: Sequence[_Word], refused: Sequence[Decided]) -> list[Decided]:
    """The report where some were refused: the others were not decided either."""
    why = {one.deal.pk: one for one in refused}
    said = f"Not decided: {refused[0].approval.reference} was refused, and they are one decision."
    done = [
        why.get(word.deal.pk)
        or Decided(approval=word.approval, deal=word.deal, refused=said, code=NOT_DECIDED)
        for word in wanted
    ]
    for one in done:
        _refresh(one)
    return done


def _decide_alone(word: _Word, user: User, comment: str, on_behalf_of: User | None) -> Decided:
    """Whatever it raises is its refusal: the next one is decided all the same."""
    found = decided_alone(word.approval.pk, word.digest, user, word.verdict, comment, on_behalf_of)
    if isinstance(found, Approval):
        return _refresh(Decided(approval=found, deal=word.deal))
    return _refresh(_refused(word, found))


def _decide(word: _Word, user: User, comment: str, on_behalf_of: User | None) -> Decided:
    try:
        approval = approval_decide(
            approval_id=word.approval.pk,
            user=user,
            verdict=word.verdict,
            comment=comment,
            expected_digest=word.digest,
            on_behalf_of=on_behalf_of,
            budgets=word.budgets,
        )
    except (DecisionRefusedError, TransitionError) as error:
        return _refresh(_refused(word, error))
    return _refresh(Decided(approval=approval, deal=word.deal))


def _refused(word: _Word, error: DecisionRefusedError | TransitionError) -> Decided:
    return Decided(approval=word.approval, deal=word.deal, refused=words_of(error), code=code_of(error))


def _refresh(done: Decided) -> Decided:
    done.approval.refresh_from_db()
    done.deal.refresh_from_db()
    return done


def _as_asked_now(done: Sequence[Decided], user: User) -> list[Decided]:
    """Each that was not on what is asked now, with what is."""
    now = asked_now([one.approval for one in done if one.code in UNREAD], user)
    return [replace(one, now=now.get(one.approval.pk)) for one in done]
