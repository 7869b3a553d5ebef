"""Every list, of the admin and of the API: as many queries for 200 rows as for 10, nothing large counted,
nothing skipped row by row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.plugin import DjangoDbBlocker

from config.api_urls import router
from orders.models import Deal
from tasks_app.people.models import User
from tests.database import Database, TestServer, point_django_at
from tests.ui.crowd import crowd, odds, originals
from tests.ui.pages import list_of
from tests.ui.seed import Agency

pytestmark = pytest.mark.deep

_MOST = 25
_BOUNDED = {"api kill-switch"}  # a row for each team
_COUNTED = re.compile(r"count\(\*\)", re.IGNORECASE)
_BOUND = re.compile(r"\blimit 1001\)", re.IGNORECASE)
_TOTAL = re.compile(rf"^explain |{_BOUND.pattern}", re.IGNORECASE)  # asked where a page is full
_LEADS_ON = re.compile(r">(Older|Next)</a>|\bmost urgent are shown\b")
_SKIPPED = re.compile(r"\boffset\s+[1-9]", re.IGNORECASE)
Asked = tuple[Any, list[str]]  # an answer, and the queries it took


@dataclass(frozen=True, kw_only=True)
class Lists:
    """Every list by name as somebody saw it who may see everything: with ten rows and with two hundred."""

    client: Client
    few: dict[str, Asked]
    many: dict[str, Asked]


@pytest.fixture(scope="module")
def seen(
    lived: tuple[Database, Agency],
    database_server: TestServer,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Lists]:
    """In a copy of the agency, many times over."""
    database = database_server.create(template=lived[0])
    with django_db_blocker.unblock():
        point_django_at(database.urls.app)
        try:
            odds(lived[1])
            rows, client = originals(), Client()
            person = User.objects.create_superuser("root")
            client.force_login(person, backend="tasks_app.people.holders.RoleBackend")
            with database_server.connect_admin(database.name) as connected:
                crowd(connected, rows, 10, 2022)
                few = {name: asked(client, address) for name, address in lists().items()}
                crowd(connected, rows, 190, 2021)
                connected.execute("analyze")
            many = {name: asked(client, address) for name, address in lists().items()}
            yield Lists(client=client, few=few, many=many)
        finally:
            connections.close_all()
            point_django_at(django_db_setup.urls.app)
            database_server.drop(database.name)


def lists() -> dict[str, str]:
    """Every list's address by name: all that are registered."""
    found = {f"admin {model._meta.label}": list_of(model) for model in admin.site._registry}
    for prefix, viewset, basename in router.registry:
        if hasattr(viewset, "list"):
            found[f"api {prefix}"] = reverse(f"{basename}-list")
    return found


def asked(client: Client, address: str) -> Asked:
    """Opens an address."""
    with CaptureQueriesContext(connection) as caught:
        answer = client.get(address)
    assert answer.status_code == 200, address
    return answer, [query["sql"] for query in caught.captured_queries]


def shown(answer: Any) -> int | None:
    """How many rows a list shows; None where its page is no list of rows."""
    if answer["Content-Type"].startswith("application/json"):
        body = answer.json()
        return len(body["results"] if isinstance(body, dict) else body)
    if "cl" in answer.context:
        return len(answer.context["cl"].result_list)
    return len(answer.context["rows"]) if "rows" in answer.context else None


def ours(name: str) -> bool:
    """Whether a list is Flightdeck's: of what libraries keep nothing was seeded."""
    return name.startswith(("api ", "admin tasks_app.", "admin orders.", "admin campaigns."))


def test_a_list_takes_no_more_queries_for_200_rows_than_for_10(seen: Lists) -> None:
    empty = [name for name, (answer, _) in seen.few.items() if ours(name) and (shown(answer) or 0) < 10]
    empty = [name for name in empty if name not in _BOUNDED]
    assert empty == [], "rows of these lists are made by tests.ui.crowd.odds"
    few = {name: len(queries) for name, (_, queries) in seen.few.items()}
    many = {name: len(queries) for name, (_, queries) in seen.many.items()}
    assert {name: count for name, count in many.items() if count > _MOST} == {}
    of_rows = {
        name: sum(not _TOTAL.search(one) for one in queries) for name, (_, queries) in seen.many.items()
    }
    assert {name: (few[name], count) for name, count in of_rows.items() if count > few[name]} == {}


def test_the_next_page_begins_after_a_key(seen: Lists) -> None:
    addresses, paged = lists(), []
    for name, (answer, queries) in seen.many.items():
        following = next_of(answer, addresses[name])
        if following is None:
            continue
        paged.append(name)
        second, more = asked(seen.client, following)
        assert keys(second).isdisjoint(keys(answer)), name
        assert not [query for query in more if _SKIPPED.search(query)], name
        if name.startswith("api "):
            assert not [query for query in queries + more if _COUNTED.search(query)], name
    assert set(paged) >= {name for name in addresses if name.startswith("api ")} - _BOUNDED
    assert len(paged) > 18


def test_a_page_of_our_own_that_shows_not_all_leads_on_or_says_so(seen: Lists) -> None:
    """Lists with templates of their own, of which two hundred rows and more are there to be shown."""
    cut = {
        name: answer.content.decode()
        for name, (answer, _) in seen.many.items()
        if name.startswith("admin ") and ours(name) and "cl" not in answer.context
        if (shown(answer) or 200) < 200
    }
    assert len(cut) > 4
    assert [name for name, page in cut.items() if not _LEADS_ON.search(page)] == []


def next_of(answer: Any, address: str) -> str | None:
    """The next page's address, where pages begin after a key."""
    if answer["Content-Type"].startswith("application/json"):
        body = answer.json()
        return body.get("next") if isinstance(body, dict) else None
    listed = answer.context.get("cl")
    return address + listed.next_link if listed is not None and listed.by_key and listed.next_link else None


def keys(answer: Any) -> set[str]:
    """What tells the rows shown apart."""
    if answer["Content-Type"].startswith("application/json"):
        return {json.dumps(row, sort_keys=True) for row in answer.json()["results"]}
    return {str(row.pk) for row in answer.context["cl"].result_list}


def test_what_is_large_is_estimated(seen: Lists) -> None:
    assert seen.few["admin orders.Deal"][0].context["cl"].total == f"{Deal.objects.count() // 201 * 11}"
    answer, queries = seen.many["admin orders.Deal"]
    assert re.fullmatch(r"about [1-9],\d00", answer.context["cl"].total)
    counted = [query for query in queries if _COUNTED.search(query) and "orders_deal" in query]
    assert all(_BOUND.search(query) for query in counted), counted


def test_no_list_tells_a_number_that_nobody_counted(seen: Lists) -> None:
    for name, (answer, _) in (*seen.few.items(), *seen.many.items()):
        if name.startswith("admin "):
            at = answer.content.find(b"9999999999")
            assert at < 0, (name, answer.content[at - 200 : at + 60])


def test_no_page_is_so_far_that_rows_are_skipped_one_by_one(seen: Lists) -> None:
    assert seen.client.get(list_of(Deal), {"o": "1", "p": "2"}).status_code == 200
    assert seen.client.get(list_of(Deal), {"o": "1", "p": "101"}).status_code == 302


def test_a_key_that_is_none_is_refused(seen: Lists) -> None:
    answer = seen.client.get(list_of(Deal), {"after": "'; drop table"})
    assert answer.status_code == 302
    assert answer["Location"].endswith("?e=1")
