"""Reconciliation in the admin: what differs and what can be done about it; the runs and their reports."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from tasks_app.desk import text
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.page import viewer
from tasks_app.lifecycle.names import names_of
from tasks_app.operations.comparison import DIFFERENT
from tasks_app.operations.presenters import pretty
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.people.scope import scope_of, visible
from tasks_app.reconciliation.actions import ActionRefusedError, Chosen, actions_for, finding_act
from tasks_app.reconciliation.findings import finding_sign
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.reconciliation.presenters import (
    KINDS,
    counts_words,
    finding_face,
    report_rows,
    run_face,
    verdict_words,
)
from tasks_app.reconciliation.runs import run_ask
from tasks_app.reconciliation.selectors import findings_of
from tasks_app.reconciliation.waiting import Waiting
from tasks_app.sellers.models import SECRET_COLUMNS, Account, Seller
from tasks_app.templatetags.fd import mark

_MAX_REASON = 2000
_SECRETS = tuple(f"seller__{name}" for name in (*SECRET_COLUMNS, "capabilities", "tools"))


@admin.register(ReconciliationFinding)
class FindingAdmin(ListPage):
    """What we and the sellers tell differently."""

    object_template = "desk/finding.html"
    list_before_template = "desk/findings_head.html"
    team_path = None  # by findings_of, see get_queryset
    head = "Reconciliation"
    subhead = "What sellers and we tell differently of tasks and media buys, and who has it"
    views: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "": ("Open", {"resolved_at__isnull": True, "verdict__in": sorted(DIFFERENT)}),
        "external": ("Bought without us", {"resolved_at__isnull": True, "verdict": "external"}),
        "resolved": ("Resolved", {"resolved_at__isnull": False}),
    }
    list_display = [
        "show_verdict",
        "show_theirs",
        "show_there",
        "show_here",
        "show_since",
        "show_holder",
    ]
    list_filter = ["seller", "kind"]
    search_fields = ["=theirs", "=here"]
    search_help_text = "The seller's id, or our reference, whole"
    ordering = ["-id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = (
            findings_of(viewer(request))
            .select_related("seller", "holder", "account")
            .defer("told", *_SECRETS)
        )
        return rows.order_by(*self.ordering)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        latest = ReconciliationRun.objects.defer("report").order_by("-id").first()
        glyph, word = run_face(latest) if latest else ("waiting", "Never run")
        extra = {
            "latest": latest,
            "latest_glyph": glyph,
            "latest_word": word,
            "may_steer": viewer(request).has_perm(STEER_OPERATION),
        }
        return super().changelist_view(request, {**extra, **(extra_context or {})})

    def name_rows(self, rows: list[Any]) -> None:
        waiting = Waiting(rows)
        for row in rows:
            row.waits_on = waiting.words(row)

    @display(description="Verdict")
    def show_verdict(self, finding: ReconciliationFinding) -> SafeString:
        words = verdict_words(finding.verdict)
        return mark("done" if finding.resolved_at else words.glyph, words.word)

    @display(description="What", ordering="seller__name")
    def show_theirs(self, finding: ReconciliationFinding) -> SafeString:
        what = f"{KINDS.get(finding.kind, '')} with {finding.seller.name}"
        return format_html(
            '<span class="two">{}<small class="mono">{}</small></span>', what, finding.theirs[:60]
        )

    @display(description="There it is")
    def show_there(self, finding: ReconciliationFinding) -> str:
        return finding.status_there or "unknown"

    @display(description="Here it is")
    def show_here(self, finding: ReconciliationFinding) -> SafeString:
        return format_html(
            '<span class="two">{}<small class="mono">{}</small></span>',
            finding.status_here or "unknown",
            finding.here or text.DASH,
        )

    @display(description="Since", ordering="first_seen_at")
    def show_since(self, finding: ReconciliationFinding) -> str:
        return text.moment_short(finding.first_seen_at)

    @display(description="Waits on")
    def show_holder(self, finding: ReconciliationFinding) -> str:
        return named(finding, "waits_on") if finding.is_open else finding_face(finding)[1]

    def object_data(self, request: HttpRequest, obj: ReconciliationFinding) -> dict[str, Any]:
        user, waiting = viewer(request), Waiting([obj])
        subject = names_of(obj.subject_type, [obj.subject_id]) if obj.subject_id else {}
        may_steer = user.has_perm(STEER_OPERATION)
        accounts = visible(Account.objects.filter(seller=obj.seller), user, team="advertiser__team")
        glyph, word = finding_face(obj)
        return {
            "finding": obj,
            "seen": finding_sign(obj),
            "kind": KINDS.get(obj.kind, ""),
            "words": verdict_words(obj.verdict),
            "glyph": glyph,
            "word": word,
            "subject": subject.get(obj.subject_id) if obj.subject_id else None,
            "waits_on": waiting.words(obj),
            "question": waiting.question(obj) if obj.is_open else None,
            "actions": actions_for(obj) if may_steer else [],
            "accounts": accounts.select_related("advertiser", "seller").order_by("id") if may_steer else [],
            "told": pretty(obj.told),
            "resolved_by": actor_names({obj.resolved_by})[obj.resolved_by] if obj.resolved_by else "",
            "title": obj.theirs,
        }

    def object_post(self, request: HttpRequest, obj: ReconciliationFinding) -> HttpResponse:
        """One action of a person; see `actions`."""
        chosen = Chosen(
            user=viewer(request),
            reason=request.POST.get("reason", "")[:_MAX_REASON],
            account_id=_uuid(request.POST.get("account", "")),
            seen=request.POST.get("seen", ""),
        )
        try:
            said = finding_act(finding_id=obj.pk, action=request.POST.get("action", ""), chosen=chosen)
        except ActionRefusedError as error:
            messages.error(request, str(error))
        else:
            messages.success(request, said)
        return HttpResponseRedirect(request.path)


@admin.register(ReconciliationRun)
class RunAdmin(ListPage):
    """Runs, and what each told."""

    object_template = "desk/reconciliation_run.html"
    team_path = None  # a run is nobody's; the rows of its report are told by team
    head = "Reconciliation runs"
    subhead = "On the worker's start, on schedule, by hand; one at a time"
    views: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {"": ("All", {})}
    list_display = ["show_asked", "trigger", "show_state", "show_counts", "show_took"]
    ordering = ["-id"]

    def get_urls(self) -> list[URLPattern]:
        now = path("now/", self.admin_site.admin_view(self.run_now), name="reconcile_now")
        return [now, *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return ReconciliationRun.objects.select_related("only").order_by(*self.ordering)

    def run_now(self, request: HttpRequest) -> HttpResponse:
        """POST: ask for a run; a worker takes it."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        user = viewer(request)
        if not user.has_perm(STEER_OPERATION):
            raise PermissionDenied
        run_ask(trigger=ReconciliationRun.Trigger.HAND, actor=user)
        messages.success(request, "Asked for. A worker compares with every active seller now.")
        return HttpResponseRedirect(reverse("admin:tasks_app_reconciliationfinding_changelist"))

    @display(description="Asked for")
    def show_asked(self, run: ReconciliationRun) -> str:
        return text.moment(run.asked_at)

    @display(description="State")
    def show_state(self, run: ReconciliationRun) -> SafeString:
        return mark(*run_face(run))

    @display(description="Found")
    def show_counts(self, run: ReconciliationRun) -> str:
        return counts_words(run.counts) or text.DASH

    @display(description="Took")
    def show_took(self, run: ReconciliationRun) -> str:
        if run.ended_at is None or run.started_at is None:
            return text.DASH
        return text.duration(run.ended_at - run.started_at)

    def object_data(self, request: HttpRequest, obj: ReconciliationRun) -> dict[str, Any]:
        glyph, word = run_face(obj)
        return {
            "run": obj,
            "glyph": glyph,
            "word": word,
            "asked_by": actor_names({obj.asked_by})[obj.asked_by],
            "counts": counts_words(obj.counts),
            "sellers": report_rows(obj.report, _seller_names(), _teams(viewer(request))),
            "title": str(obj),
        }


def _seller_names() -> dict[str, str]:
    return dict(Seller.objects.values_list("slug", "name"))


def _teams(user: User) -> set[str] | None:
    """The teams whose rows of a report `user` sees, as text; None: all. Not those of which only some
    advertisers are theirs: the rows name no advertiser, and the findings are listed one by one."""
    if user.is_superuser:
        return None
    nobodys = {""} if user.has_perm(STEER_OPERATION) else set()
    return nobodys | {str(pk) for pk in scope_of(user).whole}


def _uuid(given: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(given)
    except ValueError:
        return None
