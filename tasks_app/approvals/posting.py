"""What is posted from the approval pages: a decision, whole or in part, alone or with others; claim, release,
reassign; a comment. Each is one call of a service, which has every rule."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from math import ceil
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join

from tasks_app import clock
from tasks_app.approvals.around import operations_started
from tasks_app.approvals.bulk import confirm_data, report_data
from tasks_app.approvals.claims import approval_claim, approval_reassign, approval_release
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.evidence import packages
from tasks_app.approvals.intents import UNDO_FOR, batch_intend, batch_withdraw
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.notes import approval_comment
from tasks_app.approvals.parts import lines_typed
from tasks_app.approvals.presenters import still_needed
from tasks_app.approvals.records import DecisionBatch
from tasks_app.approvals.selectors import approval_after, obstacle
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.approvals.spending import is_large, spends
from tasks_app.approvals.together import MOST, batch_of
from tasks_app.desk.page import viewer
from tasks_app.ids import new_id
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.names import link_to
from tasks_app.lifecycle.pages import StatefulPage
from tasks_app.lifecycle.presenters import refusal_words
from tasks_app.money import decimal_of, exponent, is_currency, typed_amount
from tasks_app.people.models import User
from tasks_app.people.scope import people_known

_TOGETHER = "together"
_WORD = {"approve": "approval", "reject": "rejection"}
_CODES = {
    "not_found": 404,
    "no_right": 403,
    "own_request": 403,
    "no_delegation": 403,
    "comment": 400,
    "limits": 400,
}
_BUDGET = "budget-"
_TYPED = {"comment": "comment", "posted_for": "for", "typed_note": "body"}  # in the page: in the form
_PRINTED = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")  # an amount as pages print it: 35,200


class DecidingPage(StatefulPage):
    """The POST side of the approvals' admin."""

    def get_urls(self) -> list[URLPattern]:
        report = self.admin_site.admin_view(self.report_view)
        own = path("decided/<uuid:batch_id>/", report, name="tasks_app_approval_report")
        return [own, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """A POST decides on those chosen in the queue (`also`: id:digest), with one comment; asked once."""
        if request.method != "POST" or "decision" not in request.POST:
            return super().changelist_view(request, extra_context)
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self._decide_many(request, _shown(request.POST.getlist("also")))

    def object_post(self, request: HttpRequest, obj: Approval) -> HttpResponse:
        act = _ACTS.get(request.POST.get("act", ""))
        if act is not None:
            return self._done(request, obj, act)
        verdict = request.POST.get("decision", "")
        if verdict not in Decision.Verdict.values or not request.POST.get("digest"):
            return HttpResponseBadRequest("a decision is approve or reject, on a digest that was shown")
        if request.POST.get("scope") == _TOGETHER:
            mine = {obj.pk: request.POST["digest"]}
            return self._decide_many(request, {**mine, **_shown(request.POST.getlist("also"))})
        if verdict == Decision.Verdict.APPROVE and (page := self._confirmation_page(request, obj)):
            return page
        return self._done(request, obj, _decide)

    def _confirmation_page(self, request: HttpRequest, obj: Approval) -> HttpResponse | None:
        """Return the page that asks once more with a large sum; None if it is confirmed or not large.

        A decision that would be refused is not asked about again.
        """
        user, decisions = viewer(request), list(obj.decisions.all())
        if obstacle(obj, user, decisions) or request.POST["digest"] != obj.evidence_digest:
            return None
        try:
            budgets = _budgets(request, obj.currency)
        except DecisionRefusedError:
            return None
        lines = enumerate(packages(obj), start=1)
        part = sum((budgets.get(number, line.budget or Decimal(0)) for number, line in lines), Decimal(0))
        amount = part if budgets else spends(obj)
        if not is_large(amount, obj.currency) or decimal_of(request.POST.get("confirmed")) == amount:
            return None
        data = {
            **self._data_with_input(request, obj),
            "large": amount,
            "confirms": str(amount),
            "large_above": settings.APPROVAL_CONFIRM_ABOVE,
        }
        return self.page(request, self.object_template or "", obj, **data)

    def report_view(self, request: HttpRequest, batch_id: uuid.UUID) -> HttpResponse:
        """What becomes of each of those decided together, for whoever decides; a POST undoes it while it can
        be undone. Until it is decided the page asks for itself again."""
        user = viewer(request)
        batch = batch_of(user, batch_id)
        if batch is None:
            raise Http404
        if request.method == "POST" and request.POST.get("act") == "undo":
            return self._undone(request, batch)
        data = report_data(batch, user)
        page = self.page(request, "desk/approvals_report.html", title="What became of each", **data)
        if batch.due_at is not None and batch.pending:
            # This host's clock may be another than the database's.
            left = min(batch.due_at - clock.now(), UNDO_FOR).total_seconds()
            page["Refresh"] = str(max(2, ceil(left) + 1))
        return page

    def _undone(self, request: HttpRequest, batch: DecisionBatch) -> HttpResponse:
        try:
            batch_withdraw(batch_id=batch.pk, user=viewer(request))
        except DecisionRefusedError as error:
            messages.error(request, str(error))
            return redirect("admin:tasks_app_approval_report", batch.pk)
        messages.success(request, "Undone: nothing was decided.")
        return redirect("admin:tasks_app_approval_changelist")

    def _done(self, request: HttpRequest, obj: Approval, act: _Act) -> HttpResponse:
        try:
            to, said = act(obj, viewer(request), request)
        except DecisionRefusedError as error:
            return self._refused(request, obj, str(error), _CODES.get(error.code, 409))
        except TransitionError as error:
            return self._refused(request, obj, refusal_words(error), 409)
        link = link_to(Approval, to.pk)
        following = approval_after(viewer(request), obj) if act is _decide else None
        if following is None:
            messages.success(request, f"{to.reference}: {said}")
            return redirect(link)
        named = [(link, to.reference)]
        named += [(one.link, one.reference) for one in operations_started(to, viewer(request))]
        links = format_html_join(", ", '<a class="go" href="{}">{}</a>', named)
        messages.success(request, format_html("{}: {}", links, said))
        return redirect(link_to(Approval, following.pk))

    def _decide_many(self, request: HttpRequest, shown: dict[uuid.UUID, str]) -> HttpResponse:
        """Asked once, with what it comes to; said again with `confirmed` it is kept, to be decided on the
        digests shown once it can no longer be undone."""
        said = request.POST
        verdict, comment = said.get("decision", ""), said.get("comment", "").strip()
        if verdict not in Decision.Verdict.values or not 0 < len(shown) <= MOST:
            return HttpResponseBadRequest(f"choose 1 to {MOST} approvals, and approve or reject")
        user = viewer(request)
        try:
            principal = _principal(request)
        except DecisionRefusedError as error:
            messages.error(request, str(error))
            return redirect(request.get_full_path())
        unsaid = verdict == Decision.Verdict.REJECT and not comment
        if "confirmed" not in said or unsaid:
            data = confirm_data(shown, verdict, user, principal)
            data |= {
                "comment": comment,
                "unsaid": unsaid and "confirmed" in said,
                "seconds": UNDO_FOR.seconds,
            }
            return self.page(request, "desk/approvals_confirm.html", **data)
        try:
            batch = batch_intend(
                batch_id=_batch_id(said["confirmed"]),
                shown=shown,
                user=user,
                verdict=verdict,
                comment=comment,
                on_behalf_of=principal,
            )
        except ValueError as error:
            return HttpResponseBadRequest(str(error))
        return redirect(reverse("admin:tasks_app_approval_report", args=[batch.pk]))

    def _refused(self, request: HttpRequest, obj: Approval, refusal: str, status: int) -> HttpResponse:
        """Return the page as it is now, with the reason and what the person had typed."""
        now = self.get_queryset(request).get(pk=obj.pk)
        data = {**self._data_with_input(request, now), "refusal": refusal}
        return self.page(request, self.object_template or "", now, status=status, **data)

    def _data_with_input(self, request: HttpRequest, obj: Approval) -> dict[str, Any]:
        """Return what the page shows, with what the person had typed."""
        data, typed = self.object_data(request, obj), request.POST
        data |= {name: typed.get(sent, "") for name, sent in _TYPED.items()}
        if data["amendable"] and any(name.startswith(_BUDGET) for name in typed):
            data |= {"in_part": True, "amendable": lines_typed(data["amendable"], typed)}
        return data


_Act = Callable[[Approval, User, HttpRequest], tuple[Approval, str]]


def _decide(obj: Approval, user: User, request: HttpRequest) -> tuple[Approval, str]:
    said, verdict = request.POST, request.POST["decision"]
    decided = approval_decide(
        approval_id=obj.pk,
        user=user,
        verdict=verdict,
        comment=said.get("comment", ""),
        expected_digest=said["digest"],
        on_behalf_of=_principal(request),
        budgets=_budgets(request, obj.currency),
    )
    needed = still_needed(decided, besides=0)
    return decided, f"your {_WORD[verdict]} is recorded{f'; {needed}' if needed else ''}."


def _claim(obj: Approval, user: User, _request: HttpRequest) -> tuple[Approval, str]:
    return approval_claim(approval_id=obj.pk, user=user), "it is assigned to you."


def _release(obj: Approval, user: User, _request: HttpRequest) -> tuple[Approval, str]:
    return approval_release(approval_id=obj.pk, user=user), "it is no longer assigned to you."


def _reassign(obj: Approval, user: User, request: HttpRequest) -> tuple[Approval, str]:
    to = _receiver(obj, user, request.POST.get("to", ""))
    if to is None:
        raise DecisionRefusedError("comment", "Say to whom.")
    comment = request.POST.get("comment", "")
    return approval_reassign(
        approval_id=obj.pk, user=user, to=to, comment=comment
    ), f"it is assigned to {to}."


def _comment(obj: Approval, user: User, request: HttpRequest) -> tuple[Approval, str]:
    approval_comment(approval_id=obj.pk, user=user, body=request.POST.get("body", ""))
    return obj, "your comment is kept."


_ACTS: dict[str, _Act] = {"claim": _claim, "release": _release, "reassign": _reassign, "comment": _comment}


def _principal(request: HttpRequest) -> User | None:
    """Whom the person stands in for, as chosen of those who asked them to; None: they decide for
    themselves."""
    named, user = request.POST.get("for", ""), viewer(request)
    if not named:
        return None
    wanted = _id(named)
    person = User.objects.filter(pk=wanted, delegations_given__delegate=user).first() if wanted else None
    if person is None:
        raise DecisionRefusedError("no_delegation", "There is nobody of that name to stand in for.")
    return person


def _receiver(obj: Approval, user: User, named: str) -> User | None:
    """Of those who may decide on it, and those whom the user knows: others are named to nobody."""
    wanted = _id(named)
    able = {one.pk: one for one in deciders([obj])[obj.pk]}
    return (able.get(wanted) or people_known(user).filter(pk=wanted).first()) if wanted else None


def _id(named: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(named)
    except ValueError:
        return None


def _batch_id(named: str) -> uuid.UUID:
    """The id that the confirming page gave this word, so that a doubled click says it once."""
    try:
        return uuid.UUID(named)
    except ValueError:
        return new_id()


def _budgets(request: HttpRequest, currency: str) -> dict[int, Decimal]:
    """Line number to budget in `currency`, of the fields budget-1 …; an empty one leaves its line out. Raises
    DecisionRefusedError for what is no number."""
    found: dict[int, Decimal] = {}
    for name, text in request.POST.items():
        number = name.removeprefix(_BUDGET)
        if not name.startswith(_BUDGET) or not number.isdecimal() or len(number) > 4:
            continue
        typed = str(text).strip()
        if _PRINTED.fullmatch(typed) and is_currency(currency) and exponent(currency) < 3:
            typed = typed.replace(",", "")
        try:
            found[int(number)] = typed_amount(typed or "0", currency)
        except ValueError as error:
            raise DecisionRefusedError("limits", f"Line {int(number)}: {error}.") from error
    return found


def _shown(pairs: list[str]) -> dict[uuid.UUID, str]:
    """Approval id to the digest shown, out of `id:digest`; what is not of that form is left out."""
    found: dict[uuid.UUID, str] = {}
    for pair in pairs[: MOST + 1]:
        key, _, digest = pair.partition(":")
        with suppress(ValueError):
            found[uuid.UUID(key)] = digest
    return found
