"""What sellers say is shown and never trusted to compute: every page stands with hostile values in every
column that a seller fills."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import connections
from django.db.models import Model, QuerySet
from django.test import Client
from django.urls import get_resolver, reverse
from psycopg import sql
from pytest_django.plugin import DjangoDbBlocker

from campaigns.calendar.entries import Wanted, calendar_of
from campaigns.calendar.ical import calendar_bytes
from orders.models import Deal
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.sellers.models import SellerBreaker
from tasks_app.webhooks.models import SellerKey, SellerRevocations
from tests.api.conftest import client_of as api_client
from tests.database import Database, TestServer, point_django_at
from tests.rounds import sample_cases
from tests.ui.every_page import addresses, registered, routes
from tests.ui.matrix import OWN_PROOF
from tests.ui.pages import page_of
from tests.ui.seed import Agency
from tests.ui.stranger_columns import COLUMNS_OF_OURS, HOSTILE, MODELS_OF_OURS, all_models, poison, theirs
from tests.ui.walk import addresses as with_arguments
from tests.ui.walk import samples

_BACKEND = "tasks_app.people.holders.RoleBackend"
_EACH = 3


def test_every_model_is_judged() -> None:
    judged = {model._meta.model_name for model in COLUMNS_OF_OURS} | MODELS_OF_OURS
    assert {model._meta.model_name for model in all_models()} == judged
    for model, ours in COLUMNS_OF_OURS.items():
        assert ours <= {field.name for field in model._meta.concrete_fields}, model
        assert theirs(model), model


@dataclass(frozen=True, kw_only=True)
class Poisoned:
    """The agency; a row of everything that is shown ("app.model" to it); the columns of sellers' that no row
    has anything in."""

    agency: Agency
    rows: dict[str, Model]
    left: list[str]


@pytest.fixture(scope="module", params=sample_cases([*HOSTILE], most=1))
def poisoned(
    request: pytest.FixtureRequest,
    lived: tuple[Database, Agency],
    database_server: TestServer,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Poisoned]:
    """The agency, its people east or west of all, with hostile values in all that sellers told."""
    database, hostile = database_server.create(template=lived[0]), HOSTILE[request.param]
    of_one = sql.Identifier(database.name)
    with django_db_blocker.unblock(), database_server.connect_admin(database.name) as admin:
        # Rows that no trail tells of: what checks that at a commit is off.
        admin.execute(sql.SQL("alter database {} set session_replication_role = replica").format(of_one))
        point_django_at(database.urls.app)
        try:
            rows = samples(copy.deepcopy(lived[1]))
            _more_rows()
            connections.close_all()
            admin.execute(sql.SQL("alter database {} reset session_replication_role").format(of_one))
            left = poison(admin, hostile)
            admin.execute("update tasks_app_user set time_zone = %s", [hostile.zone])
            yield Poisoned(agency=lived[1], rows=rows, left=left)
        finally:
            connections.close_all()
            point_django_at(django_db_setup.urls.app)
    database_server.drop(database.name)


def test_every_column_is_reached(poisoned: Poisoned) -> None:
    assert poisoned.left == []


def test_every_page_stands(poisoned: Poisoned) -> None:
    person, client = _signed_in(poisoned.agency, "Administrator")
    named = {one.path for one in with_arguments(poisoned.rows) if one.name not in OWN_PROOF}
    of_api = {one for one in named if one.startswith("/api/")}
    asked = {*addresses().values(), *_more(), *named - of_api}
    failed = {address: said for address in sorted(asked) if (said := _trouble(client, address))}
    api = api_client(person)
    of_api |= {*_of_the_api(api)}
    failed |= {address: said for address in sorted(of_api) if (said := _trouble(api, address))}
    now = clock.now()
    calendar_bytes(
        calendar_of(person, Wanted(since=now - timedelta(days=90), until=now + timedelta(days=400)))
    )
    assert failed == {}
    assert len(asked) > 100


def test_who_decides_sees_today_the_queue_and_the_question(poisoned: Poisoned) -> None:
    _, client = _signed_in(poisoned.agency, "Approver")
    asked = {name: one for name, one in addresses().items() if name.startswith(("approval", "dashboard"))}
    asked |= {f"preview-{one.pk}": _preview(one) for one in Approval.objects.all()}
    assert {name: said for name, one in asked.items() if (said := _trouble(client, one))} == {}


def _more_rows() -> None:
    """What no page shows as a list, and none of the rows that pages show has."""
    operation, now = Operation.objects.latest("pk"), clock.now()
    seller = operation.seller
    Continuation.objects.create(
        operation=operation, generation=1, kind="input", descriptor="{}", asked="so", expires_at=now
    )
    SellerBreaker.objects.get_or_create(seller=seller, defaults={"reason": "so"})
    SellerKey.objects.create(seller=seller, key_id="so")
    SellerRevocations.objects.create(seller=seller, next_at=now)


def _signed_in(agency: Agency, role: str) -> tuple[User, Client]:
    person = User.objects.get(pk=agency.people[role].pk)
    client = Client()
    client.force_login(person, backend=_BACKEND)
    return person, client


def _preview(asked: Approval) -> str:
    return reverse("admin:tasks_app_approval_preview", args=[asked.pk])


def _more() -> Iterator[str]:
    """Besides the newest of each: some more of each, what is taken away as CSV, every deal."""
    yield from (page_of(one) for one in Deal.objects.all())
    for model, model_admin in registered():
        yield from (page_of(one) for one in _newest(model))
        if hasattr(model_admin, "export_view"):
            yield reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_export")


def _newest(model: type[Model]) -> QuerySet[Model]:
    return model._default_manager.order_by("-pk")[:_EACH]


def _of_the_api(client: Client) -> Iterator[str]:
    """Every list of the API, and its first rows."""
    for route in routes(get_resolver(), ""):
        if not route.startswith("api/v1/"):
            continue
        yield f"/{route}"
        answer = client.get(f"/{route}")
        listed = answer.json() if answer["Content-Type"].startswith("application/json") else None
        rows = listed.get("results") if isinstance(listed, dict) else None
        for row in (rows or [])[:_EACH]:
            if isinstance(row, dict) and "id" in row:
                yield f"/{route}{row['id']}/"


def _trouble(client: Client, address: str) -> str:
    """What went wrong, empty where an answer came."""
    try:
        answer = client.get(address)
        if answer.streaming:
            b"".join(answer.streaming_content)
    except Exception as error:
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        return f"{error!r} in {at and at.tb_frame.f_code.co_filename}:{at and at.tb_lineno}"
    return str(answer.status_code) if answer.status_code >= 500 else ""
