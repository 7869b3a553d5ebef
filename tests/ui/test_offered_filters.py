"""What lists can be asked for: the lookups that their forms offer, and no other; never a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.utils import get_fields_from_path
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import connection
from django.db.models import Field, JSONField, Model
from django.http import HttpRequest
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from encrypted_fields.fields import EncryptedFieldMixin

from config.api_urls import router
from orders.models import Deal
from tasks_app.desk.list_tools import asked_with
from tasks_app.desk.saved import SavedFilter
from tasks_app.people.models import User
from tasks_app.webhooks.models import WebhookDelivery
from tests.ui.pages import list_of
from tests.ui.seed import Agency

# What each form writes into its address; beside it there are only the saved view, the search and the order.
OFFERED: dict[str, set[str]] = {
    "campaigns.campaign": {"status__exact", "status__isnull"},
    "orders.deal": {
        "campaign_id__exact", "seller__id__exact", "seller__isnull", "status__exact", "status__isnull",
    },
    "tasks_app.account": {"seller__id__exact", "seller__isnull", "status__exact", "status__isnull"},
    "tasks_app.advertiser": {"team__id__exact", "team__isnull"},
    "tasks_app.command": {"kind", "kind__isnull", "seller__id__exact", "seller__isnull"},
    "tasks_app.exchangerate": {"currency", "currency__isnull"},
    "tasks_app.job": {"older", "recipe", "state", "team", "trouble", "waits"},
    "tasks_app.reconciliationfinding": {"kind", "kind__isnull", "seller__id__exact", "seller__isnull"},
    "tasks_app.rowtrouble": {"work", "work__isnull"},
    "tasks_app.securityevent": {"event__exact", "event__isnull"},
    "tasks_app.user": {
        "is_active__exact", "is_active__isnull", "is_service__exact", "is_service__isnull",
        "groups__id__exact", "groups__isnull", "teams__id__exact", "teams__isnull",
    },
    "tasks_app.webhookdelivery": {"seller__id__exact", "seller__isnull"},
    # Pages of our own.
    "tasks_app.approval": {"kind", "late"},
    "tasks_app.auditentry": {"entity", "reference"},
    "tasks_app.operation": {"seller", "task"},
}  # fmt: skip
_ALWAYS = {"q", "o", "view"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?|\b01[0-9a-f]{10}70008(?:0){15}\b")
_DEPTH = 2  # relations followed from a list's model
_WAYS = ("", "__startswith", "__gt", "__isnull", "__in")
_AT_ONCE = 900  # parameters; an address of Django holds 1,000
# What a column of such a name holds is either a secret or it is said here why it is none.
_SUSPICIOUS = re.compile(
    r"token|secret|password|session|(^|_)(key|code|digest|hash|salt|url)($|_)|descriptor"
)
SECRET = {
    "tasks_app.apitoken": {"digest", "token_key"},
    "axes.accessattempt": {"get_data", "post_data"},
    "axes.accesslog": {"session_hash"},
    "tasks_app.user": {"password"},
    "tasks_app.loginsession": {"session_key", "session_data"},
    "tasks_app.secondfactor": {"secret"},
    "tasks_app.recoverycode": {"digest"},
    "campaigns.calendarfeed": {"digest"},
    "tasks_app.teamwebhook": {"url"},
    "tasks_app.seller": {"token", "webhook_secret", "webhook_secret_previous"},
    "tasks_app.operation": {"request_text", "webhook_token"},
    "tasks_app.continuation": {"descriptor", "request_text"},
}
# Names of a thing, of work or of the same thing again; what was said, hashed, so that a difference shows;
# codes of errors; public keys' names; addresses that a page shows. They open nothing.
HARMLESS = {
    "actor": {"key"}, "approvalpolicy": {"key"}, "notification": {"key"}, "ormq": {"key"}, "step": {"key"},
    "command": {"key", "digest"}, "requestkey": {"key", "digest"}, "operation": {"idempotency_key"},
    "outsideevent": {"idempotency_key", "digest"}, "workflowevent": {"idempotency_key"},
    "campaign": {"request_key", "request_digest"}, "scheduleentry": {"request_key"},
    "approval": {"evidence_digest"}, "decision": {"evidence_digest"}, "auditentry": {"hash", "prev_hash"},
    "conflict": {"digest"}, "import": {"source_digest"}, "job": {"recipe_digest"},
    "observation": {"digest", "error_code"}, "reconciliationfinding": {"digest"},
    "commanddecision": {"code"}, "decisionbatchitem": {"code"},
    "seennonce": {"key_id"}, "sellerkey": {"key_id"}, "webhookdelivery": {"key", "key_id"},
    "assistantmode": {"session"}, "assistantturn": {"session"}, "assistantstep": {"tokens_used"},
    "account": {"setup_url"}, "seller": {"url", "jwks_url", "webhook_secret_previous_until"},
}  # fmt: skip


def secret_fields() -> set[str]:
    """ "app.model.field" of every secret column: those that are encrypted, and those told above."""
    encrypted = {
        f"{model._meta.label_lower}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, EncryptedFieldMixin)
    }
    return encrypted | {f"{label}.{name}" for label, names in SECRET.items() for name in names}


def reached(model: type[Model], depth: int = _DEPTH) -> Iterator[str]:
    """Every path that Django would filter a list of `model` by, some ways of comparing each."""
    for path, field in _paths(model, depth):
        for way in _WAYS:
            yield f"{path}{way}"
        if isinstance(field, JSONField):
            yield from (f"{path}__{key}__startswith" for key in ("result__media_buy_id", "token"))


def _paths(model: type[Model], depth: int) -> Iterator[tuple[str, Any]]:
    for field in model._meta.get_fields():
        name = field.name
        yield name, field
        if depth and field.is_relation and isinstance(field.related_model, type):
            inner = _paths(field.related_model, depth - 1)
            yield from ((f"{name}__{path}", one) for path, one in inner)


def batched(keys: list[str], most: int) -> Iterator[list[str]]:
    for at in range(0, len(keys), most):
        yield keys[at : at + most]


def lists() -> list[Any]:
    return [pytest.param(model, own, id=model._meta.label) for model, own in admin.site._registry.items()]


@pytest.fixture
def root(agency: Agency) -> Client:
    client = Client()
    person = User.objects.create_superuser("root")
    client.force_login(person, backend="tasks_app.people.holders.RoleBackend")
    return client


@pytest.mark.parametrize(("model", "own"), lists())
def test_a_list_takes_what_its_form_offers_and_nothing_else(
    root: Client, model: type[Model], own: Any
) -> None:
    label, address = model._meta.label_lower, list_of(model)
    offered = OFFERED.get(label, set()) | _ALWAYS
    request = root.get(address).wsgi_request
    assert set(own.known_filters(request)) - _ALWAYS == offered - _ALWAYS
    beyond = sorted(set(reached(model)) - offered)
    assert len(beyond) > 20
    for some in batched(beyond, _AT_ONCE):
        query = urlencode(dict.fromkeys(some, "1"))
        assert set(some) <= set(re.split(r", | is no filter", own.filter_problem(request, query)))
        if own.list_template_name is None:
            _refused_by_list(own, asked_with(request, query), some)
    if own.list_template_name is not None:
        query = urlencode(dict.fromkeys(_nearest(beyond), "1"))
        assert _asked(root, f"{address}?{query}") == _asked(root, address), "it changes what is read"
    query = urlencode({beyond[0]: "1"})
    assert _export(root, model, query).status_code == 404
    saved = {"act": "save", "name": "Spy", "query": query, "team": ""}
    root.post(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_filters"), saved)
    assert not SavedFilter.objects.exists()


def _nearest(keys: list[str]) -> list[str]:
    """As many as one address holds, the shortest paths first."""
    return sorted(keys, key=lambda key: key.count("__"))[:_AT_ONCE]


def _refused_by_list(own: Any, request: HttpRequest, keys: list[str]) -> None:
    with pytest.raises(DisallowedModelAdminLookup) as refused:
        own.get_changelist_instance(request)
    named = str(refused.value).removeprefix("This list has no filter ").removesuffix(".")
    assert set(named.split(", ")) == set(keys)


def _asked(client: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    queries = (_MOMENT.sub("now", query["sql"]) for query in caught.captured_queries)
    return [" ".join(sorted(re.findall(r"[\w-]+", query))) for query in queries]  # sets stand in any order


def _export(client: Client, model: type[Model], query: str) -> Any:
    return client.get(f"{reverse(f'admin:{model._meta.app_label}_{model._meta.model_name}_export')}?{query}")


def test_what_a_form_offers_holds_for_its_list_its_csv_and_its_saved_filters(
    root: Client, agency: Agency
) -> None:
    deal = agency.deals["aldous-display"]
    values = {"id__exact": deal.seller_id, "isnull": "False", "exact": "booked"}
    for model, own in admin.site._registry.items():
        for key in OFFERED.get(model._meta.label_lower, set()) - set(own.filter_keys):
            value = next((v for end, v in values.items() if key.endswith(end)), "USD")
            value = 1 if key.startswith(("groups__id", "is_")) else value
            query = urlencode({key: value})
            assert root.get(f"{list_of(model)}?{query}").status_code == 200, (model, key)
            assert _export(root, model, query).status_code == 200, (model, key)
            saved = {"act": "save", "name": key, "query": query, "team": ""}
            root.post(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_filters"), saved)
            assert SavedFilter.objects.filter(page=model._meta.label_lower, name=key).exists(), (model, key)


@pytest.mark.deep
def test_no_list_looks_for_what_cannot_be_kept(root: Client, agency: Agency) -> None:
    """A NUL stands in no text of PostgreSQL: whatever a list's address may hold is refused with it, or finds
    nothing; so is its CSV, and it is no filter to save."""
    root.raise_request_exception = False
    broken, asked = [], 0
    for model in admin.site._registry:
        offered = OFFERED.get(model._meta.label_lower, set()) | _ALWAYS
        for key in sorted(offered | {"after", "p"}):
            query = urlencode({key: "a\x00b"})
            came = [
                root.get(f"{list_of(model)}?{query}").status_code,
                _export(root, model, query).status_code,
            ]
            broken += [(model._meta.label, key, came)] if max(came) >= 500 else []
            asked += 1
    assert broken == []
    assert asked > 100
    SavedFilter.objects.all().delete()
    saved = {"act": "save", "name": "Nul", "query": "currency=%00", "team": ""}
    root.post(reverse("admin:tasks_app_exchangerate_filters"), saved)
    assert not SavedFilter.objects.exists()


def test_a_default_filter_of_a_form_that_changed_is_no_trap(root: Client) -> None:
    owner = User.objects.get(username="root")
    SavedFilter.objects.create(
        owner=owner, page="orders.deal", name="Old", query="body__a=1", is_default=True
    )
    assert root.get(list_of(Deal)).status_code == 200


def test_nobody_guesses_letter_by_letter(root: Client, agency: Agency) -> None:
    """As it was done: a media buy's id out of what a page hides, by whether a row is shown."""
    delivery = WebhookDelivery.objects.create(
        seller=agency.deals["aldous-display"].seller,
        key="0" * 8,
        fingerprint="0" * 64,
        verdict="refused",
        body={"result": {"media_buy_id": "mb_secret"}},
    )
    shown = []
    for guess in ("mb_s", "wrong"):
        query = urlencode({"body__result__media_buy_id__startswith": guess})
        answer = root.get(f"{list_of(WebhookDelivery)}?{query}", follow=True)
        assert "This list has no filter body__result__media_buy_id" in answer.content.decode()
        shown.append([row.pk for row in answer.context["cl"].result_list])
    assert shown[0] == shown[1]
    assert delivery.pk in shown[0]


def test_every_list_of_the_api_names_the_filters_that_it_does_not_have(root: Client) -> None:
    asked = 0
    for _, viewset, basename in router.registry:
        if not hasattr(viewset, "list"):
            continue
        filters: Any = getattr(viewset, "filterset_class", None)
        offered = set(filters.base_filters) if filters else set()
        beyond = sorted(set(reached(viewset.queryset.model)) - offered)
        for some in batched(beyond, _AT_ONCE):
            answer = root.get(f"{reverse(f'{basename}-list')}?{urlencode(dict.fromkeys(some, '1'))}")
            assert answer.status_code == 400, basename
            assert set(answer.json()["errors"]) == set(some)
            asked += len(some)
    assert asked > 10_000


def test_no_secret_is_filtered_by_in_the_api() -> None:
    secrets, filtered = secret_fields(), []
    for _, viewset, basename in router.registry:
        filters: Any = getattr(viewset, "filterset_class", None)
        for one in filters.base_filters.values() if filters else ():
            if _named(viewset.queryset.model, one.field_name) & secrets:
                filtered.append((basename, one.field_name))
    assert filtered == []


def test_every_suspicious_column_is_called_secret_or_not() -> None:
    """A new one is added to SECRET or to HARMLESS."""
    harmless = {f"{model}.{name}" for model, names in HARMLESS.items() for name in names}
    found = {
        f"{model._meta.label_lower}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if _SUSPICIOUS.search(field.name)
    }
    assert {one for one in found - secret_fields() if one.split(".", 1)[1] not in harmless} == set()


@pytest.mark.parametrize(("model", "own"), lists())
def test_no_secret_is_filtered_searched_or_sorted_by(model: type[Model], own: Any) -> None:
    secrets = secret_fields()
    paths = [*own.list_filter, *(name.lstrip("=^@") for name in own.search_fields), *own.list_display]
    paths += [lookup.rpartition("__")[0] for lookup in getattr(own, "linked_lookups", ())]
    paths += [
        str(getattr(getattr(own, str(name), None), "admin_order_field", "")) for name in own.list_display
    ]
    assert {path for path in paths if _named(model, path) & secrets} == set()


def _named(model: type[Model], path: str) -> set[str]:
    try:
        fields: list[Field[Any, Any]] = get_fields_from_path(model, str(path).lstrip("-"))
    except (FieldDoesNotExist, ValidationError):
        return set()
    return {f"{field.model._meta.label_lower}.{field.name}" for field in fields}


def test_every_list_pages_by_our_change_list(root: Client) -> None:
    """Whatever makes its list otherwise is a page of our own, which reads no lookups."""
    for model, own in admin.site._registry.items():
        made: type[ChangeList] = own.get_changelist(root.get(list_of(model)).wsgi_request)
        assert own.list_template_name or "get_filters" in {n for c in made.__mro__[:-2] for n in vars(c)}
