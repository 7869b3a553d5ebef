"""Servers of several suites and demos on one machine do not take each other's ports."""

from __future__ import annotations

import os
import socket
from itertools import combinations
from pathlib import Path

import pytest

from config.processes import ProcessError
from demo import ports, run
from demo.ports import bindable, free_port


def test_a_port_is_given_once_and_to_no_outgoing_connection() -> None:
    given = [free_port() for _ in range(50)]
    assert len(set(given)) == 50
    assert 20_000 <= min(given) <= max(given) < 32_000


def test_one_that_is_taken_is_passed_over() -> None:
    with socket.socket() as taken:
        following = free_port() + 1
        taken.bind(("127.0.0.1", following if bindable(following) else 0))
        taken.listen()
        assert not bindable(taken.getsockname()[1])
        assert free_port() != taken.getsockname()[1]


def test_other_processes_begin_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_walks", {})
    begun = []
    for number in (1000, 1001, 1002):
        monkeypatch.setattr(os, "getpid", lambda number=number: number)
        begun.append(free_port())
    assert min(abs(one - other) for one, other in combinations(begun, 2)) > 100


def test_the_demo_takes_the_port_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = str(taken.getsockname()[1])
        monkeypatch.setenv("PORT", busy)
        with pytest.raises(ProcessError, match=busy):
            run._port(tmp_path / "port")
    free = free_port()
    monkeypatch.setenv("PORT", str(free))
    assert run._port(tmp_path / "port") == free
    monkeypatch.setenv("PORT", "x")
    with pytest.raises(run.DemoError, match="PORT"):
        run._port(tmp_path / "port")
