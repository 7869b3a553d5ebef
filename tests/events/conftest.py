"""A registry of subscribers of the test's own."""

from __future__ import annotations

import pytest

from tasks_app.events import bus
from tests.events.parts import Recorder


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No subscriber but those that the test makes."""
    monkeypatch.setattr(bus, "_subscribers", {})


@pytest.fixture
def recorder(nobody: None) -> Recorder:
    """One subscriber of everything, that remembers what it was handed."""
    return Recorder("recorder")
