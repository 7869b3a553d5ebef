"""Approval policies in the admin: the list, the page of one with sentences, form and history; and rates."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from tasks_app.approvals.kinds import kind_names
from tasks_app.approvals.policies import Policy
from tasks_app.approvals.policy_applying import policies_latest, policy_of
from tasks_app.approvals.policy_forms import OF_RULES, SECTIONS, PolicyForm, RateForm
from tasks_app.approvals.policy_models import ApprovalPolicy, ExchangeRate
from tasks_app.approvals.policy_services import changes_in_words, may_change, policy_change, policy_create
from tasks_app.approvals.policy_words import catches_words, policy_sentences, quorum_words
from tasks_app.approvals.rates import rate_add
from tasks_app.desk import text
from tasks_app.desk.items import raised
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.page import viewer
from tasks_app.lifecycle.names import link_to
from tasks_app.people.actors import actor_names
from tasks_app.people.roles import MANAGE_POLICIES
from tasks_app.people.scope import in_scope
from tasks_app.templatetags.fd import mark

_PAGE, _WORDS = "desk/policy.html", "desk/policy_words.html"
_VERSIONS = 50


@admin.register(ApprovalPolicy)
class PolicyAdmin(ListPage):
    """What is put to whom; every edit is a new version."""

    class Media:
        js = ("desk/policy.js",)

    object_template = _PAGE
    team_path = None  # get_queryset says whose: those for all teams are everybody's
    head = "Approval policies"
    subhead = "What is put to whom, until when. Several may catch one question: the strictest of each wins"
    views = {"": ("In force", {"active": True}), "off": ("Switched off", {"active": False})}
    list_display = ["show_name", "show_catches", "show_people", "show_scope", "show_state", "show_changed"]
    search_fields = ["name"]
    ordering = ["name", "key"]
    list_select_related = ["team", "advertiser"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return viewer(request).has_perm(MANAGE_POLICIES)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        user, rows = viewer(request), policies_latest().select_related("team", "advertiser")
        if user.is_superuser:
            return rows
        return rows.filter(Q(team__isnull=True) | in_scope(ApprovalPolicy, user))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Any version leads to its page, also one that approvals still name."""
        try:
            seen = ApprovalPolicy.objects.filter(pk=object_id).values("key")
            return self.get_queryset(request).filter(key__in=seen).first()
        except (ValidationError, ValueError):
            return None

    def get_urls(self) -> list[URLPattern]:
        words = path(
            "words/", self.admin_site.admin_view(self.words_view), name="tasks_app_approvalpolicy_words"
        )
        return [words, *super().get_urls()]

    def name_rows(self, rows: list[Any]) -> None:
        names = actor_names({row.actor for row in rows})
        for row in rows:
            row.changed_by = names[row.actor]

    @display(description="Policy", ordering="name")
    def show_name(self, row: ApprovalPolicy) -> SafeString:
        return format_html('<span class="two">{}<small>version {}</small></span>', row.name, row.version)

    @display(description="Catches")
    def show_catches(self, row: ApprovalPolicy) -> str:
        return raised(catches_words(policy_of(row)))

    @display(description="Wants")
    def show_people(self, row: ApprovalPolicy) -> str:
        return quorum_words(row.quorum, row.roles).capitalize()

    @display(description="For")
    def show_scope(self, row: ApprovalPolicy) -> str:
        return _scope(row) or "All teams"

    @display(description="State")
    def show_state(self, row: ApprovalPolicy) -> SafeString:
        return mark(*_face(row))

    @display(description="Changed", ordering="at")
    def show_changed(self, row: ApprovalPolicy) -> SafeString:
        who = named(row, "changed_by")
        return format_html('<span class="two">{}<small>{}</small></span>', text.moment_short(row.at), who)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        user = viewer(request)
        form = PolicyForm(request.POST or None, viewer=user)
        if request.method == "POST" and form.is_valid():
            try:
                made = policy_create(draft=form.draft(), actor=user, reason=form.cleaned_data["reason"])
            except ValidationError as error:
                form.take(error)
            else:
                messages.success(
                    request, f"{made.name} is in force." if made.active else f"{made.name} is kept."
                )
                return redirect(link_to(ApprovalPolicy, made.pk))
        status = 400 if request.method == "POST" else 200
        data = _form_data(form, _sentences(form.draft().policy()))
        return self.page(request, _PAGE, status=status, title="New approval policy", **data)

    def object_data(self, request: HttpRequest, obj: ApprovalPolicy) -> dict[str, Any]:
        user = viewer(request)
        form = PolicyForm.of(obj, user) if may_change(obj, user) else None
        glyph, word = _face(obj)
        return {
            **_form_data(form, _sentences(policy_of(obj), _scope(obj))),
            "policy": obj,
            "seen": obj.version,
            "glyph": glyph,
            "word": word,
            "scope": _scope(obj) or "all teams",
            "versions": _history(obj),
            "title": obj.name,
        }

    def object_post(self, request: HttpRequest, obj: ApprovalPolicy) -> HttpResponse:
        """Save the form as the next version of the one that was read."""
        user = viewer(request)
        if not may_change(obj, user):
            raise PermissionDenied
        form, said = PolicyForm(request.POST, viewer=user), request.POST.get("version", "")
        seen = int(said) if said.isdecimal() and len(said) < 9 else 0
        if form.is_valid():
            try:
                made = policy_change(
                    key=obj.key,
                    version=seen,
                    draft=form.draft(),
                    actor=user,
                    reason=form.cleaned_data["reason"],
                )
            except ValidationError as error:
                form.take(error)
            else:
                messages.success(request, f"{made.name}: version {made.version} holds from now on.")
                return redirect(link_to(ApprovalPolicy, made.pk))
        data = {**self.object_data(request, obj), **_form_data(form, _sentences(form.draft().policy()))}
        data["seen"] = seen  # what was refused as read too early stays refused until it is read again
        return self.page(request, _PAGE, obj, status=400, **data)

    def words_view(self, request: HttpRequest) -> HttpResponse:
        """What the form says so far, in words."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = PolicyForm(request.POST, viewer=viewer(request))
        form.is_valid()
        draft = form.draft()
        said = _sentences(draft.policy(), _scope(draft.row()))
        return TemplateResponse(request, _WORDS, {"sentences": said})


@admin.register(ExchangeRate)
class ExchangeRateAdmin(ListPage):
    """Rates by which amounts of other currencies are compared; a new one is added, none is changed."""

    head = "Exchange rates"
    subhead = "Amounts are compared at the latest rate on or before the day; without one, a policy catches"
    team_path = None
    form = RateForm
    list_display = ["currency", "day", "show_usd", "source", "show_actor", "show_at"]
    list_filter = ["currency"]
    search_fields = ["=currency", "source"]
    ordering = ["-day", "currency", "-id"]
    readonly_fields: list[str] = []

    def has_add_permission(self, request: HttpRequest) -> bool:
        return viewer(request).has_perm(MANAGE_POLICIES)

    def name_rows(self, rows: list[Any]) -> None:
        names = actor_names({row.actor for row in rows})
        for row in rows:
            row.added_by = names[row.actor]

    def save_model(self, request: HttpRequest, obj: ExchangeRate, form: Any, change: bool) -> None:
        """Through the service, which has the last word."""
        said = form.cleaned_data
        kept = rate_add(
            currency=said["currency"],
            day=said["day"],
            usd=said["usd"],
            source=said["source"],
            actor=viewer(request),
        )
        obj.pk, obj.at, obj.actor = kept.pk, kept.at, kept.actor

    @display(description="One unit in USD")
    def show_usd(self, rate: ExchangeRate) -> str:
        return text.number(rate.usd)

    @display(description="By")
    def show_actor(self, rate: ExchangeRate) -> str:
        return named(rate, "added_by")

    @display(description="Added")
    def show_at(self, rate: ExchangeRate) -> str:
        return text.moment(rate.at)


def _form_data(form: PolicyForm | None, sentences: tuple[str, ...]) -> dict[str, Any]:
    sections = [
        (title, [(form[name], " ".join(OF_RULES.get(name, ()))) for name in names])
        for title, names in (SECTIONS if form else ())
        if form
    ]
    return {
        "form": form,
        "sections": sections,
        "sentences": sentences,
        "words_url": reverse("admin:tasks_app_approvalpolicy_words"),
    }


def _history(policy: ApprovalPolicy) -> list[dict[str, Any]]:
    """Versions, newest first: who, when, why, from what to what."""
    versions = list(ApprovalPolicy.objects.filter(key=policy.key).order_by("-version")[:_VERSIONS])
    names = actor_names({one.actor for one in versions})
    return [
        {"version": one, "by": names[one.actor], "changes": changes_in_words(one.changes)} for one in versions
    ]


def _sentences(policy: Policy, scope: str = "") -> tuple[str, ...]:
    return policy_sentences(policy, labels=kind_names(), scope=scope)


def _scope(row: ApprovalPolicy) -> str:
    if row.advertiser is not None:
        return f"{row.advertiser}, {row.team}" if row.team else str(row.advertiser)
    return str(row.team) if row.team else ""


def _face(row: ApprovalPolicy) -> tuple[str, str]:
    """Glyph and word."""
    return ("done", "In force") if row.active else ("stopped", "Switched off")
