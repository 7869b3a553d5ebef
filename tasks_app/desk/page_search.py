"""Pages and actions that the search box finds by the words of their titles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from tasks_app.desk.page import viewer
from tasks_app.desk.search import MOST, Hit
from tasks_app.people.models import User


@dataclass(frozen=True, kw_only=True)
class PageAction:
    """A page on which something is done: its title, the name of its address, who may open it."""

    title: str
    address: str
    may: Callable[[User], bool]


_actions: dict[str, PageAction] = {}


def page_action_register(action: PageAction) -> None:
    """Let the search box find a page on which something is done."""
    _actions[action.address] = action


def register() -> None:
    """Called when the application starts."""
    for thing in ("user", "team", "advertiser", "seller"):
        title, right = f"Add {'person' if thing == 'user' else thing}", f"tasks_app.add_{thing}"
        may = _has_right(right)
        page_action_register(PageAction(title=title, address=f"admin:tasks_app_{thing}_add", may=may))
    page_action_register(PageAction(title="Make an API token", address="account", may=lambda user: True))


def find_pages(text: str, request: HttpRequest) -> list[Hit]:
    """Return the actions and the rail's pages whose titles have a word for each word of `text`."""
    words = text.lower().split()
    found = [hit for hit in _offered(request) if _matches(hit.title, words)]
    return found[:MOST] if words else []


def _offered(request: HttpRequest) -> Iterator[Hit]:
    user = viewer(request)
    for action in _actions.values():
        if action.may(user):
            yield _hit("Action", action.title, reverse(action.address))
    for group in admin.site.get_sidebar_list(request):  # type: ignore[attr-defined]
        for item in group["items"]:
            yield _hit("Page", str(item["title"]), str(item["link"]))


def _hit(label: str, title: str, link: str) -> Hit:
    return Hit(
        kind=label.lower(),
        label=label,
        id=link,
        reference="",
        title=title,
        matched="name",
        link=link,
        exact=False,
    )


def _matches(title: str, words: list[str]) -> bool:
    named = title.lower().split()
    return all(any(one.startswith(word) for one in named) for word in words)


def _has_right(right: str) -> Callable[[User], bool]:
    return lambda user: user.has_perm(right)
