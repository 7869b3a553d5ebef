"""Clients of tests share their middleware, but for those of a test that has settings of its own."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client, override_settings

from config import middleware
from tests.middleware import loaded_once


def loaded() -> Any:
    handler = Client().handler
    handler.load_middleware()
    return handler._middleware_chain


def test_it_is_loaded_once_and_anew_under_other_settings() -> None:
    shared = loaded()
    assert loaded() is shared
    with override_settings(MIDDLEWARE=["config.middleware.KeptTextMiddleware"]):
        own = loaded()
        assert own is not shared
        assert loaded() is not own
    assert loaded() is shared


def test_what_the_first_test_patched_is_in_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    with loaded_once():
        monkeypatch.setattr(middleware, "TimeZoneMiddleware", made.append)
        assert loaded() is loaded()
    assert made == []
