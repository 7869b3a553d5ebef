"""What the environment says: lists may have spaces, and what cannot be meant stops the start."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import environment
from tasks_app.people.role_names import ROLE_NAMES
from tasks_app.people.roles import ROLES

NAME = "FLIGHTDECK_TEST"


def test_the_roles_that_settings_know_are_those_there_are() -> None:
    assert tuple(ROLES) == ROLE_NAMES


@pytest.mark.parametrize(
    "told", ["Approver, Administrator", " Approver ,Administrator,", "Approver,,Administrator"]
)
def test_lists_may_have_spaces(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, told)
    assert environment.listed(NAME, known=ROLE_NAMES) == ["Approver", "Administrator"]


def test_what_a_list_names_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "Approver, approvers")
    with pytest.raises(ImproperlyConfigured, match="approvers"):
        environment.listed(NAME, known=ROLE_NAMES)


@pytest.mark.parametrize("told", ["nan", "inf", "-inf", "0", "-1", "many", ""])
def test_a_number_is_finite_and_above_0(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, told)
    for read in (environment.positive, environment.count):
        with pytest.raises(ImproperlyConfigured, match=NAME):
            read(NAME, 1)


@pytest.mark.parametrize("told", ["treu", "ja", "flase", "2", ""])
def test_what_is_neither_yes_nor_no_is_refused(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, told)
    with pytest.raises(ImproperlyConfigured, match="is 1 or 0"):
        environment.yes_no(NAME, True)


@pytest.mark.parametrize(("told", "means"), [("1", True), (" True ", True), ("no", False), ("off", False)])
def test_yes_and_no(told: str, means: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, told)
    assert environment.yes_no(NAME, not means) is means


def test_a_count_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "1.5")
    with pytest.raises(ImproperlyConfigured):
        environment.count(NAME, 1)


@pytest.mark.parametrize(
    "told", ["desk.example.com", "ftp://desk.example", "https://", "https://[x", "https://a:0"]
)
def test_an_address_is_one_of_the_web(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, told)
    with pytest.raises(ImproperlyConfigured):
        environment.web_address(NAME, "")


def test_an_empty_key_file_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    with pytest.raises(ImproperlyConfigured, match="empty"):
        environment.kept_secret(tmp_path / "key")


def test_processes_that_race_at_the_first_start_read_the_same_secret(tmp_path: Path) -> None:
    path = tmp_path / "var" / "secret_key"
    with ThreadPoolExecutor(8) as pool:
        read = set(pool.map(lambda _: environment.kept_secret(path), range(64)))
    assert read == {path.read_text()}
    assert path.stat().st_mode & 0o077 == 0
    assert [one.name for one in path.parent.iterdir()] == ["secret_key"]


def test_where_there_is_no_room_no_part_of_a_secret_is_left(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limit[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            environment.kept_secret(tmp_path / "secret_key")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("FLIGHTDECK_POLL_SCALE", "nan"),
        ("FLIGHTDECK_PAGES", "treu"),
        ("FLIGHTDECK_DB_POOL", "ja"),
        ("FLIGHTDECK_DEBUG", "flase"),
        ("FLIGHTDECK_SESSION_HOURS", "1e300"),
        ("FLIGHTDECK_EVENT_KEEP_DAYS", "1e6"),
        ("FLIGHTDECK_WORKERS", "1e9"),
        ("FLIGHTDECK_WORKING_TIMEOUT_S", "1751"),
        ("FLIGHTDECK_WORKERS", "0"),
        ("FLIGHTDECK_PUBLIC_URL", "desk.example.com"),
        ("FLIGHTDECK_SECOND_FACTOR_ROLES", "approvers"),
        ("FLIGHTDECK_SECRET_KEY", "x"),
        ("FLIGHTDECK_FIELD_KEYS", f"{'x' * 31}, {'k' * 32}"),
    ],
)
def test_settings_read_the_environment_so(name: str, told: str) -> None:
    code, said = _started({name: told})
    assert code != 0
    assert name in said
    assert "x" * 31 not in said, "no key stands in an error"


@pytest.mark.parametrize(
    ("told", "means", "before"),
    [
        ("", "", []),
        (" ", "", []),
        (f" {'k' * 32}\n", "k" * 32, [f" {'k' * 32}\n"]),
        ("é" * 32, "é" * 32, []),
    ],
)
def test_a_key_is_read_without_what_stands_around_it(
    told: str, means: str, before: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier version made by it, spaces and all, can still be read."""
    monkeypatch.setenv(NAME, told)
    assert environment.secret(NAME) == (means, before)


def test_what_a_key_of_before_made_is_read_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """One may hold a comma, or spaces around it, as none does from now on."""
    monkeypatch.setenv(NAME, " old,key ")
    assert environment.earlier_secrets(NAME) == ["old", "key", " old,key "]


@pytest.mark.parametrize("told", ["", " ", ",", " , \t,"])
def test_commas_and_spaces_alone_are_no_key_of_before(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A template whose places are empty: what is signed with them would be believed."""
    monkeypatch.setenv(NAME, told)
    assert environment.earlier_secrets(NAME) == []


def test_settings_read_by_the_keys_of_before() -> None:
    told = f" {'k' * 40}\n"
    code, said = _started({"FLIGHTDECK_SECRET_KEY": told, "FLIGHTDECK_SECRET_KEY_FALLBACKS": "a,b"})
    assert code == 0, said
    assert json.loads(said)[2:] == ["k" * 40, ["a", "b", "a,b", told]]


def test_older_keys_of_a_ring_may_be_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, f"{'k' * 32}, short")
    assert environment.key_ring(NAME) == ["k" * 32, "short"]


def test_a_blank_key_is_none_and_the_kept_one_is_used(tmp_path: Path) -> None:
    code, said = _started({"FLIGHTDECK_SECRET_KEY": " ", "FLIGHTDECK_VAR": str(tmp_path)})
    assert code == 0, said
    assert len((tmp_path / "secret_key").read_text()) >= 32


def test_a_key_file_holds_no_key_that_can_be_guessed(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x" * 31)
    with pytest.raises(ImproperlyConfigured, match="at least 32") as refused:
        environment.kept_secret(tmp_path / "key")
    assert "x" * 31 not in str(refused.value)


def test_settings_read_lists_so() -> None:
    roles = {"FLIGHTDECK_SECOND_FACTOR_ROLES": "Approver, Administrator"}
    code, said = _started({**roles, "FLIGHTDECK_HOSTS": "a.example, b.example"})
    assert code == 0, said
    assert json.loads(said)[:2] == [["Approver", "Administrator"], ["a.example", "b.example", "127.0.0.1"]]


def _started(told: dict[str, str]) -> tuple[int, str]:
    told_of = "[s.SECOND_FACTOR_ROLES, s.ALLOWED_HOSTS, s.SECRET_KEY, s.SECRET_KEY_FALLBACKS]"
    code = f"import json; from config import settings as s; print(json.dumps({told_of}))"
    environ = {name: value for name, value in os.environ.items() if name != "FLIGHTDECK_PUBLIC_URL"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**environ, **told},
        cwd=Path(__file__).resolve().parents[2],
        check=False,
    )
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr
