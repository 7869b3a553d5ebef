"""The API describes itself, and its page works without anything from elsewhere."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.staticfiles import finders
from django.core.management import call_command
from rest_framework.test import APIClient, APIRequestFactory

from config.api_schema import SchemaView
from tasks_app.sellers.models import Seller
from tests.factories import make_deal, make_user

pytestmark = pytest.mark.django_db
_AT_ONCE = 6


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict:
    path: Path = tmp_path_factory.mktemp("schema") / "schema.yaml"
    call_command("spectacular", "--fail-on-warn", "--validate", "--file", str(path))
    return dict(yaml.safe_load(path.read_text()))


def test_the_schema_is_right_and_complete(schema: dict) -> None:
    written = {
        f"{method} {path}"
        for path, methods in schema["paths"].items()
        for method in methods
        if method != "get"
    }
    assert written == {
        "post /api/v1/campaigns/",
        "post /api/v1/campaigns/{id}/decide/",
        "post /api/v1/operations/",
        *(
            f"post /api/v1/operations/{{id}}/{act}/"
            for act in ("poll", "resend", "stop", "settle", "answer", "write", "correct", "withdraw")
        ),
        "post /api/v1/kill-switch/",
        "post /api/v1/conflicts/{id}/ask/",
        "post /api/v1/approvals/decide/",
        *(
            f"post /api/v1/approvals/{{id}}/{act}/"
            for act in ("decide", "claim", "release", "reassign", "comment")
        ),
        "post /api/v1/delegations/",
        "post /api/v1/delegations/{id}/end/",
        "post /api/v1/jobs/bulk/",
        "post /api/v1/jobs/{id}/cancel/",
        "post /api/v1/jobs/{id}/retry/",
        "post /api/v1/jobs/{id}/hide/",
        *(f"post /api/v1/jobs/{{id}}/{act}/" for act in ("skip", "input", "priority", "resume")),
        "post /api/v1/notifications/read/",
        "post /api/v1/schedules/",
        *(f"post /api/v1/schedules/{{id}}/{act}/" for act in ("pause", "resume", "run")),
        "post /api/v1/events/",
        "post /api/v1/assistant/sessions/",
        *(f"post /api/v1/assistant/sessions/{{id}}/{act}/" for act in ("turns", "restore")),
        "post /api/v1/assistant/turns/{id}/stop/",
        *(f"post /api/v1/assistant/proposals/{{id}}/{act}/" for act in ("confirm", "dismiss")),
        "post /api/v1/assistant/modes/",
    }
    assert {"/api/v1/jobs/{id}/graph/", "/api/v1/deals/{id}/"} <= set(schema["paths"])
    brief = schema["paths"]["/api/v1/campaigns/"]["post"]["requestBody"]["content"]
    assert set(brief) == {"application/json", "application/yaml"}


def test_it_names_no_secret(schema: dict) -> None:
    fields = {
        name for part in schema["components"]["schemas"].values() for name in part.get("properties", ())
    }
    assert not fields & {"request_text", "webhook_token", "webhook_secret", "token", "password"}


def test_it_is_served() -> None:
    answer = APIClient().get("/api/schema/")
    assert answer.status_code == 200
    assert yaml.safe_load(answer.content)["info"]["title"] == "Flightdeck API"


def test_it_is_built_once_however_many_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it stands, who asks meanwhile waits for the one that builds it."""
    building, all_are = [], threading.Event()
    build = SchemaView.generator_class.get_schema

    def counted(*given: Any, **named: Any) -> Any:
        building.append(1)
        if len(building) == _AT_ONCE:
            all_are.set()
        all_are.wait(1)  # were each to build its own, they would meet here
        return build(*given, **named)

    monkeypatch.setattr(SchemaView, "_built", {})
    monkeypatch.setattr(SchemaView.generator_class, "get_schema", counted)
    view, asks = SchemaView.as_view(), APIRequestFactory()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        told = list(pool.map(lambda _: view(asks.get("/api/schema/")).content, range(2 * _AT_ONCE)))
    assert len(building) == 1
    assert len(set(told)) == 1
    again = asks.get("/api/schema/", headers={"If-None-Match": view(asks.get("/api/schema/"))["ETag"]})
    assert (view(again).status_code, len(building)) == (304, 1)


def test_the_docs_load_only_from_here_and_without_inline_scripts() -> None:
    page = APIClient().get("/api/docs/")

    assert page.status_code == 200
    text = page.content.decode()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert loaded
    assert all(address.startswith("/") for address in loaded)
    for address in loaded:
        if address.startswith("/static/"):
            assert finders.find(address.removeprefix("/static/")), address
    assert not re.findall(r"<script(?![^>]*\bsrc=)", text)
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    script = next(address for address in loaded if address.startswith("/api/docs/"))
    assert b"SwaggerUIBundle" in APIClient().get(script.replace("&amp;", "&")).content


def test_who_is_not_signed_in_reads_the_schema_and_nothing_of_what_is_kept() -> None:
    before = APIClient().get("/api/schema/").content
    deal = make_deal()
    make_user("Approver", name="maya-lindgren")
    Seller.objects.filter(pk=deal.seller_id).update(name="Quenby Audio", slug="quenby-audio")
    assert APIClient().get("/api/schema/").content == before
    for address in ("/api/docs/", "/api/docs/?script="):
        answer = APIClient().get(address)
        assert answer.status_code == 200
        shown = answer.content.decode()
        assert not any(name in shown for name in ("Quenby", "maya-lindgren", deal.reference))
    signed_in = APIClient()
    signed_in.force_authenticate(make_user("Administrator"))
    assert signed_in.get("/api/schema/").content == before, "nobody is shown more of it"
