"""Files and rows that nobody sane would write: told, never guessed, never half imported."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from campaigns.legacy import source
from orders.models import Deal
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.models import Import as ImportRow
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tests.commands.running import Ran, call
from tests.legacy.buyer import SHAPE, Buyer
from tests.legacy.conftest import Import
from tests.rounds import rounds

pytestmark = pytest.mark.django_db

LOOSE = ", ".join(part.split()[0] for part in SHAPE["deals"].split(", "))  # no types, no constraints


def told(ran: Ran) -> list[dict[str, str]]:
    """The problems of the only row that was not imported."""
    (one,) = ran.json["not_imported"]
    return list(one["problems"])


def nothing_here() -> bool:
    return not any(m.objects.exists() for m in (Deal, Seller, ImportRow, AuditEntry))


@pytest.mark.parametrize(
    ("fields", "column"),
    [
        ({"status": None}, "status"),
        ({"status": 7}, "status"),
        ({"status": b"quoted"}, "status"),
        ({"status": "quoted\0"}, "status"),
        ({"id": None}, "id"),
        ({"id": 12}, "id"),
        ({"id": "deal\0-1"}, "id"),
        ({"id": "x" * 300}, "id"),
        ({"seller_url": None}, "seller_url"),
        ({"seller_url": "ESPN"}, "seller_url"),
        ({"seller_url": "javascript:alert(1)"}, "seller_url"),
        ({"seller_url": "file:///etc/passwd"}, "seller_url"),
        ({"seller_url": "https://" + "x" * 600 + ".com"}, "seller_url"),
        ({"seller_url": "https://[::1"}, "seller_url"),
        ({"seller_deal_id": "x" * 256}, "seller_deal_id"),
        ({"product_id": ""}, "product_id"),
        ({"product_id": b"\xff"}, "product_id"),
        ({"currency": "BTC"}, "currency"),
        ({"currency": 840}, "currency"),
        ({"flight_start": None}, "flight_start"),
        ({"flight_start": "soon"}, "flight_start"),
        ({"flight_start": 20260601}, "flight_start"),
        ({"flight_start": "0001-01-01T00:00:00+14:00"}, "flight_start"),
        ({"flight_end": "9999-12-31"}, "flight_end"),
        ({"flight_end": "2026-05-31"}, "flight_end"),
        ({"flight_end": "2026-02-30"}, "flight_end"),
        ({"created_at": None}, "created_at"),
        ({"created_at": "1969-07-20"}, "created_at"),
        ({"created_at": "2199-01-01"}, "created_at"),
        ({"created_at": 1.5}, "created_at"),
    ],
)
def test_a_value_that_cannot_be_is_named_by_its_column(
    buyer: Buyer, bring: Import, fields: dict[str, Any], column: str
) -> None:
    buyer.sql("drop table deals", f"create table deals ({LOOSE})")
    buyer.deal("deal-1", "quoted", advertiser="", **fields)

    ran = bring("--advertiser", "Lindqvist Coffee")

    assert ran.code == 1, ran.out
    assert [problem["field"] for problem in told(ran)] == [column]
    assert nothing_here()


def test_every_problem_of_a_row_is_named_at_once(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "active", seller_url="x", flight_start="y", currency="z", advertiser="nobody")
    assert {problem["field"] for problem in told(bring())} == {
        "status", "seller_url", "flight_start", "currency", "portfolio_metadata.advertiser_id",
    }  # fmt: skip


def test_credentials_in_an_address_are_neither_kept_nor_repeated(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted", seller_url="https://me:s3cret@seller.example.com/")
    ran = bring()
    assert told(ran)[0]["problem"] == "holds credentials"
    assert "s3cret" not in ran.out + ran.err
    assert nothing_here()


def test_text_that_postgresql_cannot_hold_is_kept_marked(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted", "negotiating", buyer_context="a\0b", metadata=b"\xff\xfe", deal_type="PG")
    buyer.sql("update status_transitions set notes = 'x' || char(0) || 'y'")
    assert bring().code == 0
    row = Deal.objects.get().terms["imported"]["row"]
    assert (row["buyer_context"], row["metadata"]) == ("a\ufffdb", "\\xfffe")


def test_text_that_is_not_utf8_is_told(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted")
    buyer.sql("update deals set product_id = cast(x'ff00' as text)")
    assert told(bring()) == [{"field": "product_id", "problem": "is no text but bytes"}]


def test_a_huge_row_is_told_and_the_others_come(buyer: Buyer, bring: Import) -> None:
    buyer.deal("huge", "quoted", buyer_context="x" * (source.MAX_ROW + 1))
    buyer.deal("long", "quoted", product_name="n" * 900_000)

    ran = bring()

    assert told(ran) == [{"field": "", "problem": "is larger than 1000000 bytes"}]
    deal = Deal.objects.get()
    assert deal.lines.get().product_name == "n" * 255
    assert len(deal.terms["imported"]["row"]["product_name"]) == 900_000


def test_history_that_cannot_be_read_is_told(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted")
    buyer.sql(
        "drop table status_transitions",
        "create table status_transitions (entity_type, entity_id, from_status, to_status)",
    )
    buyer.add("status_transitions", entity_type="deal", entity_id=b"\0", to_status="quoted")
    buyer.add("status_transitions", entity_type="deal", entity_id="deal-1", from_status=3, to_status="quoted")

    ran = bring()

    assert ran.code == 1
    assert told(ran) == [{"field": "entity_id", "problem": "is no text but bytes"}]
    assert AuditEntry.objects.get().metadata["history"][0]["from"] == "3"


def test_rows_of_other_tables_that_cannot_be_read_are_told(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted")
    buyer.add("booking_records", deal_id=b"\0", line_id="1")
    assert told(bring())[0]["field"] == "deal_id"
    assert Deal.objects.count() == 1, "it is no deal's there either"


@pytest.mark.parametrize("named", ["deal-1", " deal-1 "])
@pytest.mark.parametrize("table", ["booking_records", "portfolio_metadata"])
def test_a_deal_of_which_a_row_is_too_large_is_not_taken_for_less(
    buyer: Buyer, bring: Import, table: str, named: str
) -> None:
    buyer.deal("deal-1", "quoted")
    buyer.deal("deal-2", "quoted")
    buyer.add("booking_records", deal_id="deal-1", line_id="L1", channel="ctv", cost=10_000)
    buyer.sql(f"alter table {table} add column more")
    buyer.add(table, deal_id=named, more="x" * (source.MAX_ROW + 1))

    ran = bring()

    (of_the_deal,) = (one for one in ran.json["not_imported"] if one["table"] == "deals")
    assert of_the_deal["id"] == "deal-1"
    assert [problem["field"] for problem in of_the_deal["problems"]] == [table]
    assert "is larger than 1000000 bytes" in of_the_deal["problems"][0]["problem"]
    assert [one["id"] for one in ran.json["imported"]] == ["deal-2"]


@pytest.mark.parametrize("brief", ["", "[]", "{", '"x"', "1" * 5000, "[" * 100_000, b"\0"])
def test_a_job_whose_brief_cannot_be_read(buyer: Buyer, bring: Import, brief: Any) -> None:
    buyer.job(brief=brief)
    assert told(bring()) == [{"field": "brief", "problem": "is no JSON object"}]


@pytest.mark.parametrize(
    "brief",
    [
        '{"name": "a", "id": "other", "status": "completed"}',
        '{"name": "a", "budget": NaN, "currency": {}}',
        '{"name": "a", "budget": [1], "start_date": 3}',
        '{"name": "a", "budget": 1e400}',
    ],
)
def test_a_jobs_brief_that_is_odd_gives_what_it_can(buyer: Buyer, bring: Import, brief: str) -> None:
    buyer.job(brief=brief)
    (one,) = bring().json["imported"]
    assert (one["id"], one["status"]) == ("job-1", "failed")
    assert one["notes"]


def test_two_rows_of_one_id_are_told(buyer: Buyer, bring: Import) -> None:
    buyer.sql("drop table deals", f"create table deals ({LOOSE})")
    buyer.deal("deal-1", "quoted")
    buyer.deal("deal-1", "quoted", advertiser="")
    ran = bring()
    assert [one["id"] for one in ran.json["imported"]] == ["deal-1"]
    assert told(ran) == [{"field": "id", "problem": "is there twice"}]


def test_two_deals_of_one_media_buy_are_told_and_the_first_stays(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted", seller_deal_id="MB-1")
    buyer.deal("deal-2", "quoted", seller_deal_id="MB-1")
    ran = bring()
    refused = told(ran)[0]
    assert (refused["field"], Deal.objects.get().reference in refused["problem"]) == ("seller_deal_id", True)
    assert ImportRow.objects.get().rows == Deal.objects.count() == 1, (
        "it explains no birth but those it brought"
    )
    assert Deal.objects.get().media_buy_id == "MB-1"


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_what_is_no_database_is_refused(buyer: Buyer, bring: Import, content: bytes) -> None:
    buyer.path.write_bytes(content)
    ran = bring()
    assert ran.code == 2
    assert "Nothing was imported" in ran.json["error"]


def test_a_file_that_is_not_there_a_folder_and_a_pipe(admin: User, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "nothing.db", tmp_path, tmp_path / "pipe"):
        ran = call("import_ad_buyer", str(path), "--as", "vera")
        assert ran.code == 2, path


def test_a_database_of_something_else(admin: User, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("create table songs (id integer primary key)")
        connection.execute("create view deals as select 1 as id")
    ran = call("import_ad_buyer", str(other), "--as", "vera")
    assert ran.code == 2
    assert "none of the tables deals, campaigns and jobs" in ran.err


def test_a_table_without_row_ids_is_refused(admin: User, tmp_path: Path) -> None:
    odd = tmp_path / "odd.db"
    with closing(sqlite3.connect(odd)) as connection, connection:
        connection.execute("create table deals (id text primary key) without rowid")
        connection.execute("insert into deals values ('deal-1')")
    assert call("import_ad_buyer", str(odd), "--as", "vera").code == 2


def test_a_column_that_plays_the_row_id_is_refused(admin: User, tmp_path: Path) -> None:
    odd = tmp_path / "odd.db"
    with closing(sqlite3.connect(odd)) as connection, connection:
        connection.execute("create table deals (id text, rowid text)")
        connection.execute("insert into deals values ('deal-1', null)")
    assert "no row ids" in call("import_ad_buyer", str(odd), "--as", "vera").err


def test_a_table_that_lacks_most_columns(buyer: Buyer, bring: Import) -> None:
    buyer.sql(
        "drop table deals", "create table deals (id, status)", "insert into deals values ('d', 'quoted')"
    )
    assert {problem["field"] for problem in told(bring())} == {
        "seller_url", "product_id", "flight_start", "created_at", "portfolio_metadata.advertiser_id",
    }  # fmt: skip


def test_a_broken_database_is_refused_whole_or_read_whole(buyer: Buyer, bring: Import) -> None:
    for number in range(40):
        buyer.deal(f"deal-{number}", "quoted", buyer_context="c" * 3000)
    whole = buyer.path.read_bytes()
    dice = random.Random(7)  # noqa: S311
    refused = 0
    for _ in range(rounds(5, 25)):
        broken = bytearray(whole)
        for _ in range(40):
            broken[dice.randrange(100, len(broken))] = dice.randrange(256)
        buyer.path.write_bytes(bytes(broken[: dice.randrange(5000, len(broken))]))
        ran = bring("--dry-run")
        assert ran.code in (0, 1, 2), ran.err
        refused += ran.code == 2
        assert nothing_here()
    assert refused


def test_what_is_still_in_the_write_ahead_log_is_read_and_nothing_is_written(
    buyer: Buyer, bring: Import
) -> None:
    buyer.sql("pragma journal_mode = wal")
    with closing(sqlite3.connect(buyer.path)) as held:  # keeps the log from being merged into the file
        held.execute("pragma wal_autocheckpoint = 0")
        held.execute("select count(*) from deals").fetchone()
        buyer.deal("deal-1", "quoted")
        before = files(buyer.path.parent)
        assert any(name.endswith("-wal") and content for name, content in before.items())

        ran = bring()

        assert ran.code == 0, ran.err
        assert Deal.objects.count() == 1
        assert files(buyer.path.parent) == before


def test_a_file_and_folder_that_may_only_be_read(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted")
    before = files(buyer.path.parent)
    buyer.path.chmod(stat.S_IRUSR)
    buyer.path.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert bring().code == 0
    finally:
        buyer.path.parent.chmod(stat.S_IRWXU)
    assert files(buyer.path.parent) == before


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
