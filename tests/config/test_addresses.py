"""config.postgres.database_urls: what settings compute."""

from __future__ import annotations

import os
from pathlib import Path

import environ
import pytest
from psycopg.conninfo import conninfo_to_dict

from config import postgres
from config.postgres.addresses import Address, address_file, write_address


def test_given_urls_are_used_as_they_are(tmp_path: Path) -> None:
    given = {"DATABASE_URL": "postgresql://app@db/x", "MIGRATE_DATABASE_URL": "postgresql://owner@db/x"}
    urls = postgres.database_urls(tmp_path, given)
    assert (urls.app, urls.owner) == ("postgresql://app@db/x", "postgresql://owner@db/x")


def test_one_url_serves_both_roles(tmp_path: Path) -> None:
    urls = postgres.database_urls(
        tmp_path, {"DATABASE_URL": "postgresql://one@db/x", "MIGRATE_DATABASE_URL": " "}
    )
    assert urls.owner == urls.app == "postgresql://one@db/x"


def test_before_the_first_start_urls_name_the_socket_to_come(tmp_path: Path) -> None:
    urls = postgres.database_urls(tmp_path, {})
    assert conninfo_to_dict(urls.app) == {
        "user": "flightdeck_app",
        "dbname": "flightdeck",
        "host": str(postgres.data_dir(tmp_path)),
        "port": "5432",
    }
    assert conninfo_to_dict(urls.owner)["user"] == "flightdeck_owner"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"socket_dir": "/x"}', '{"socket_dir": "/x", "passwords": 7}']
)
def test_a_broken_address_file_does_not_stop_settings(tmp_path: Path, content: str) -> None:
    data = postgres.data_dir(tmp_path)
    if data.is_relative_to(tmp_path):
        data.parent.mkdir(parents=True)
        address_file(data).write_text(content)
    assert conninfo_to_dict(postgres.database_urls(tmp_path, {}).app)["host"] == str(data)


def test_an_address_is_written_for_its_owner_alone_and_read_back(tmp_path: Path) -> None:
    data = tmp_path / "postgres"
    address = Address(socket_dir="/a b/ü", passwords={"flightdeck_app": "p/@:%", "flightdeck_owner": "q"})
    before = os.umask(0)
    try:
        write_address(data, address)
    finally:
        os.umask(before)
    assert address_file(data).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["postgres.json"]
    read = conninfo_to_dict(address.urls().app)
    assert (read["host"], read["password"]) == ("/a b/ü", "p/@:%")
    django = environ.Env.db_url_config(address.urls().app)
    assert (django["OPTIONS"]["host"], django["PASSWORD"]) == ("/a b/ü", "p/@:%")


def test_no_password_in_a_repr() -> None:
    address = Address(socket_dir="/x", passwords={"flightdeck_app": "hunter2", "flightdeck_owner": "hunter3"})
    assert "hunter" not in repr(address) + repr(address.urls())
