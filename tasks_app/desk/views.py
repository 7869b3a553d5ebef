"""Pages of the desk that belong to no model: explanations, and the results of a search."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.decorators import staff_member_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path
from django.views.decorators.http import require_GET

from tasks_app.desk.explain import NotExplainedError, explain_row
from tasks_app.desk.page import viewer
from tasks_app.desk.page_search import find_pages
from tasks_app.desk.search import LONGEST, SHORTEST, Hit, SearchRefusedError, search, single


@require_GET
@staff_member_required
def explain_card(request: HttpRequest, entity: str, pk: uuid.UUID) -> HttpResponse:
    """The five answers about one row: the card alone for the page that loads it, else a page of its own. 404
    for what the viewer may not see."""
    try:
        told = explain_row(entity, pk, viewer(request))
    except NotExplainedError as error:
        raise Http404 from error
    if request.headers.get("HX-Request"):
        return TemplateResponse(request, "desk/explain_card.html", {"e": told})
    return _page(request, "desk/explain_page.html", title=f"Explain {told.reference or told.title}", e=told)


@require_GET
@staff_member_required
def find(request: HttpRequest) -> HttpResponse:
    """What `q` names: the list alone for the search box, else a page; what was named whole opens at once."""
    text = request.GET.get("q", "").strip()
    hits: list[Hit] = []
    refused = ""
    try:
        hits = [*search(text, viewer(request)), *find_pages(text, request)] if text else []
    except SearchRefusedError as error:
        refused = str(error)
    data = {"query": text[:LONGEST], "hits": hits, "refused": refused, "shortest": SHORTEST}
    if request.headers.get("HX-Request"):
        return TemplateResponse(request, "desk/find_hits.html", data)
    only = single(hits)
    if only is not None:
        return HttpResponseRedirect(only.link)
    return _page(request, "desk/find.html", title="Find", **data)


def _page(request: HttpRequest, template: str, **data: Any) -> TemplateResponse:
    """A page in unfold's frame."""
    vars(request)["current_app"] = admin.site.name
    return TemplateResponse(request, template, {**admin.site.each_context(request), **data})


desk_urls = [
    path("explain/<slug:entity>/<uuid:pk>/", explain_card, name="explain_card"),
    path("find/", find, name="find"),
]
