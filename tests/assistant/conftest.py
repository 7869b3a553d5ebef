"""What the assistant's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.assistant.driver import ModelServer
from tests.assistant.fakes import shared_thread


@pytest.fixture
def inline(db: None) -> Iterator[None]:
    """Turns run within the transaction of the test."""
    with shared_thread():
        yield


@pytest.fixture(scope="session")
def model_server_process() -> Iterator[ModelServer]:
    """One scripted model server for all tests of the session."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def model_server(model_server_process: ModelServer) -> ModelServer:
    """The session's model server, without a script and without requests."""
    model_server_process.reset()
    return model_server_process
