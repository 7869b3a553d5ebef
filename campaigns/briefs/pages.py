"""The pages on which a brief is written: as a form, or as YAML or JSON."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_POST

from campaigns.acts import may_submit
from campaigns.brief import Problem
from campaigns.briefs.conversion import BriefEntry, entry_data, values_without_field
from campaigns.briefs.drafts import DraftRefusedError, discard_draft, drafts_of, save_draft
from campaigns.briefs.fields import CeilingRow, ChannelRow, CountryRow, SellerRow, seller_choices
from campaigns.briefs.preview import preview_of
from campaigns.briefs.submission import SameBriefError, submit_brief
from campaigns.briefs.text import brief_of_text, default_brief, text_of_brief
from campaigns.models import BriefDraft, Campaign
from campaigns.services import BriefRefusedError, SubmissionRefusedError, check_brief
from tasks_app import ids
from tasks_app.desk.page import Page, viewer
from tasks_app.lifecycle.names import link_to
from tasks_app.people.models import User

_FORM, _TEXT = "desk/brief_form.html", "desk/brief_text.html"
_CONTROL_FIELDS = ("csrfmiddlewaretoken", "token", "again")


class BriefPages(Page):
    """The pages of a new campaign, as part of the campaigns' admin."""

    def get_urls(self) -> list[URLPattern]:
        pages = {
            "submit/": (self.form_view, "campaign_submit"),
            "submit/text/": (self.text_view, "campaign_submit_text"),
            "submit/draft/": (require_POST(self.draft_view), "campaign_draft"),
            "submit/discard/": (require_POST(self.discard_view), "campaign_draft_discard"),
        }
        own = [path(way, self.admin_site.admin_view(view), name=name) for way, (view, name) in pages.items()]
        return [*own, *super().get_urls()]

    def form_view(self, request: HttpRequest) -> HttpResponse:
        """Show the brief as a form, or submit it. A brief posted as text is shown as a form."""
        user = _submitter(request)
        if request.method != "POST":
            return self._first_page(request, user)
        token = _token(request.POST)
        if _has_text(request):
            return self._form_of_text(request, user, token)
        entry = BriefEntry(request.POST, user=user)
        raw = entry.brief()
        entry.add_problems(check_brief(user, raw)[2])
        if not entry.is_valid():
            return self._form_page(request, entry, token, refused=True)
        try:
            return self._submit(request, user, raw, token)
        except SameBriefError as error:
            return self._form_page(request, entry, token, same=error.campaign)
        except (BriefRefusedError, SubmissionRefusedError) as error:
            entry.problems.append(str(error))
            return self._form_page(request, entry, ids.new_id(), refused=True)

    def text_view(self, request: HttpRequest) -> HttpResponse:
        """Show the brief as YAML or JSON, or submit it. A brief posted as a form is shown as text."""
        user = _submitter(request)
        if request.method != "POST":
            draft = self._draft(request, user)
            typed = draft.content.get("text") if draft else None
            text = typed[0] if typed else text_of_brief(default_brief(user))
            return self._text_page(request, text, draft.pk if draft else ids.new_id())
        token = _token(request.POST)
        if not _has_text(request):
            return self._text_page(request, text_of_brief(BriefEntry(request.POST, user=user).brief()), token)
        content, name, text = _posted_text(request)
        try:
            return self._submit(request, user, brief_of_text(content, name=name), token)
        except SameBriefError as error:
            return self._text_page(request, text, token, same=error.campaign)
        except BriefRefusedError as error:
            return self._text_page(request, text, token, error.problems)
        except SubmissionRefusedError as error:
            problems = [{"field": "brief", "problem": str(error)}]
            return self._text_page(request, text, ids.new_id(), problems)

    def draft_view(self, request: HttpRequest) -> HttpResponse:
        """Keep what was typed so far and return the preview of it."""
        user, token = _submitter(request), _token(request.POST)
        typed = {name: values for name, values in request.POST.lists() if name not in _CONTROL_FIELDS}
        data: dict[str, Any] = {}
        try:
            data["saved_at"] = save_draft(user, token, typed).saved_at
        except DraftRefusedError as error:
            data["refusal"] = str(error)
        try:
            if "text" in request.POST:
                brief = brief_of_text(_posted_text(request)[0])
            else:
                brief = BriefEntry(request.POST, user=user).brief()
            data["preview"] = preview_of(user, brief)
        except BriefRefusedError as error:
            data["refusal"] = error.problems[0]["problem"]
        return render(request, "desk/brief_preview.html", data)

    def discard_view(self, request: HttpRequest) -> HttpResponse:
        """Discard a draft."""
        discard_draft(_submitter(request), _token(request.POST))
        messages.success(request, "The draft is discarded.")
        return HttpResponseRedirect(reverse("admin:campaign_submit"))

    def _submit(
        self, request: HttpRequest, user: User, raw: dict[str, Any], token: uuid.UUID
    ) -> HttpResponse:
        campaign = submit_brief(raw=raw, token=token, user=user, again=request.POST.get("again") == "on")
        messages.success(request, f"{campaign.reference} is submitted.")
        return HttpResponseRedirect(link_to(Campaign, campaign.pk))

    def _first_page(self, request: HttpRequest, user: User) -> HttpResponse:
        """Return the page with a draft, the brief of an earlier campaign, or the default brief."""
        draft = self._draft(request, user)
        if draft is not None and "text" not in draft.content:
            data = QueryDict(mutable=True)
            for name, values in draft.content.items():
                data.setlist(name, values)
            return self._form_page(request, BriefEntry(data, user=user), draft.pk)
        like = self.get_object(request, request.GET.get("like", ""))
        raw = like.brief if isinstance(like, Campaign) and isinstance(like.brief, dict) else None
        return self._form_of(request, user, raw or default_brief(user), ids.new_id())

    def _draft(self, request: HttpRequest, user: User) -> BriefDraft | None:
        wanted = request.GET.get("draft")
        return get_object_or_404(drafts_of(user), pk=_id_of(wanted)) if wanted else None

    def _form_of_text(self, request: HttpRequest, user: User, token: uuid.UUID) -> HttpResponse:
        content, name, text = _posted_text(request)
        try:
            return self._form_of(request, user, brief_of_text(content, name=name), token)
        except BriefRefusedError as error:
            return self._text_page(request, text, token, error.problems)

    def _form_of(
        self, request: HttpRequest, user: User, raw: dict[str, Any], token: uuid.UUID
    ) -> HttpResponse:
        """Return the form with a brief, or its text if the form would lose a part of it."""
        entry = BriefEntry(entry_data(raw, user=user), user=user)
        lost = values_without_field(raw, entry)
        if lost:
            return self._text_page(request, text_of_brief(raw), token, lost)
        return self._form_page(request, entry, token)

    def _form_page(
        self,
        request: HttpRequest,
        entry: BriefEntry,
        token: uuid.UUID,
        *,
        same: Campaign | None = None,
        refused: bool = False,
    ) -> HttpResponse:
        user = viewer(request)
        empty = {"channel": ChannelRow({}), "country": CountryRow({}), "ceiling": CeilingRow({})}
        empty["seller"] = SellerRow({}, excluded=seller_choices())
        data = {"entry": entry, "empty": empty, "same": same, "refused": refused}
        return self._brief_page(request, _FORM, token, preview=preview_of(user, entry.brief()), **data)

    def _text_page(
        self,
        request: HttpRequest,
        text: str,
        token: uuid.UUID,
        problems: list[Problem] | None = None,
        same: Campaign | None = None,
    ) -> HttpResponse:
        data: dict[str, Any] = {"text": text, "problems": problems, "same": same}
        try:
            raw = brief_of_text(text.encode("utf-8", "surrogatepass"))
            data["preview"] = preview_of(viewer(request), raw)
        except BriefRefusedError as error:
            data["refusal"] = error.problems[0]["problem"]
        return self._brief_page(request, _TEXT, token, **data)

    def _brief_page(self, request: HttpRequest, template: str, token: uuid.UUID, **data: Any) -> HttpResponse:
        drafts = [one for one in drafts_of(viewer(request)) if one.pk != token]
        return self.page(request, template, title="New campaign", token=token, drafts=drafts, **data)


def _submitter(request: HttpRequest) -> User:
    user = viewer(request)
    if not may_submit(user):
        raise PermissionDenied
    return user


def _has_text(request: HttpRequest) -> bool:
    return "text" in request.POST or "file" in request.FILES


def _posted_text(request: HttpRequest) -> tuple[bytes, str, str]:
    """Return the brief's bytes, the name of the uploaded file or "", and the text for the page.

    The text of a file that is too large is not shown; what was typed stays.
    """
    text = str(request.POST.get("text", ""))
    upload = request.FILES.get("file")
    if upload is None:
        return text.encode("utf-8", "surrogatepass"), "", text
    content = upload.read()
    if len(content) <= settings.MAX_BRIEF_BYTES:
        text = content.decode("utf-8", "replace")
    return content, upload.name or "", text


def _token(data: QueryDict) -> uuid.UUID:
    """Return the id that a form carries; a new one if it carries none."""
    return _id_of(data.get("token", "")) or ids.new_id()


def _id_of(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
