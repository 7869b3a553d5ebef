"""submit_brief: a campaign from a file, or every reason why not; watched until it needs a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from asgiref.sync import async_to_sync

from campaigns.models import Campaign
from tasks_app.jobs.models import Job
from tasks_app.jobs.worker import drain
from tasks_app.operations.sweep import sweep_once
from tasks_app.people.models import User
from tests.campaigns.briefs import brief
from tests.commands.running import Ran, call, ended, run, started
from tests.database import Database
from tests.factories import make_advertiser, make_seller, make_team, make_user
from tests.fake_seller.driver import FakeSeller
from tests.support import PATIENCE_S, until

_LONG = str(3 * PATIENCE_S)  # seconds


def right_brief(**changed: Any) -> dict[str, Any]:
    """In the future whenever the test runs."""
    return brief(**{"flight__start": "+14d", "flight__end": "+41d", **changed})


def written(folder: Path, data: Any, name: str = "brief.json") -> str:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return str(path)


@pytest.fixture
def buyer(db: None) -> User:
    make_advertiser()
    make_seller()
    return make_user("Buyer", name="bo")


def assert_no_campaign() -> None:
    assert not Campaign.objects.exists()
    assert not Job.objects.exists()


class TestSubmitting:
    @pytest.mark.parametrize("name", ["brief.json", "brief.yaml"])
    def test_a_right_brief_becomes_a_campaign_with_a_job(
        self, buyer: User, tmp_path: Path, name: str
    ) -> None:
        text = yaml.safe_dump(right_brief()) if name.endswith("yaml") else json.dumps(right_brief())

        ran = call("submit_brief", written(tmp_path, text.encode(), name), "--as", "bo", "--json")

        campaign = Campaign.objects.get()
        assert ran.code == 0, ran.err
        assert ran.json["campaign"] == campaign.reference
        assert ran.json["status"] == "brief_received"
        assert (ran.json["problems"], ran.json["deals"]) == ([], [])
        assert Job.objects.get().subject_id == campaign.pk

    @pytest.mark.parametrize(
        ("changed", "field"),
        [
            ({"budget__total": -250_000}, "budget.total"),
            ({"flight__start": "+41d", "flight__end": "+14d"}, "flight.end"),
            ({"channels": ["display", "skywriting"]}, "channels.1.channel"),
            ({"budget__total": "NaN"}, "budget.total"),
            ({"advertiser": "Nobody & Sons"}, "advertiser"),
            ({"constraints__excluded_sellers": ["No Such Seller"]}, "constraints.excluded_sellers"),
        ],
    )
    def test_a_wrong_brief_is_kept_with_its_problems(
        self, buyer: User, tmp_path: Path, changed: dict[str, Any], field: str
    ) -> None:
        ran = call("submit_brief", written(tmp_path, right_brief(**changed)), "--json")

        campaign = Campaign.objects.get()
        assert ran.code == 1
        assert campaign.status == ran.json["status"] == "validation_failed"
        assert field in {problem["field"] for problem in ran.json["problems"]}
        assert not Job.objects.exists()

    def test_every_problem_is_printed(self, buyer: User, tmp_path: Path) -> None:
        wrong = right_brief(budget__total=-1, flight__zone="Moon", channels=["skywriting"], name="")

        ran = call("submit_brief", written(tmp_path, wrong))

        assert ran.code == 1
        for field in ("budget.total", "flight.zone", "channels.0.channel", "name"):
            assert f"  {field}: " in ran.out

    def test_nan_in_yaml_is_a_problem_of_its_field(self, buyer: User, tmp_path: Path) -> None:
        text = yaml.safe_dump(right_brief(budget__total=float("nan"))).encode()
        assert b".nan" in text

        ran = call("submit_brief", written(tmp_path, text, "brief.yaml"), "--json")

        assert ran.code == 1
        assert [problem["field"] for problem in ran.json["problems"]] == ["budget.total"]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (b'{"budget": {"total": NaN}}', "NaN is not a JSON number"),
            (b'{"name": "half', "not JSON"),
            (b"[]", "not an object"),
            (b"", "not JSON"),
            (b"\x89PNG\r\n\x1a\n\xff", "not UTF-8"),
            (b'{"name": "' + b"x" * 5 * 2**20 + b'"}', "too large"),
        ],
    )
    def test_an_unparseable_one_makes_no_campaign(
        self, buyer: User, tmp_path: Path, text: bytes, said: str
    ) -> None:
        ran = call("submit_brief", written(tmp_path, text), "--json")

        assert ran.code == 2
        assert said in ran.json["error"]
        assert_no_campaign()

    def test_a_file_without_end_is_not_read_to_its_end(self, buyer: User) -> None:
        ran = call("submit_brief", "/dev/zero")

        assert ran.code == 2
        assert "too large" in ran.err

    @pytest.mark.parametrize("name", ["missing.json", "."])
    def test_a_file_that_cannot_be_read(self, buyer: User, tmp_path: Path, name: str) -> None:
        ran = call("submit_brief", str(tmp_path / name))

        assert ran.code == 2
        assert "cannot be read" in ran.err

    def test_words_of_the_brief_cannot_steer_the_terminal(self, buyer: User, tmp_path: Path) -> None:
        ran = call("submit_brief", written(tmp_path, right_brief(name="\x1b[2J\x1b]0;pwned\x07cold brew")))

        assert ran.code == 0
        assert "\x1b" not in ran.out
        assert "cold brew" in ran.out


class TestWho:
    def test_the_only_buyer_submits(self, buyer: User, tmp_path: Path) -> None:
        make_user("Approver")

        assert call("submit_brief", written(tmp_path, right_brief())).code == 0
        assert Campaign.objects.get().requested_by == f"human:{buyer.pk}"

    def test_of_several_one_is_named(self, buyer: User, tmp_path: Path) -> None:
        make_user("Buyer", name="bea")

        ran = call("submit_brief", written(tmp_path, right_brief()))

        assert ran.code == 2
        assert "bea, bo" in ran.err
        assert_no_campaign()

    def test_nobody(self, buyer: User, tmp_path: Path) -> None:
        User.objects.update(is_active=False)

        ran = call("submit_brief", written(tmp_path, right_brief()))

        assert ran.code == 2
        assert "Nobody may submit" in ran.err
        assert_no_campaign()

    @pytest.mark.parametrize("name", ["ann", "nobody", "gone", "teamless"])
    def test_who_may_not(self, buyer: User, tmp_path: Path, name: str) -> None:
        make_user("Approver", name="ann")
        make_user("Buyer", name="teamless", team=make_team("Elsewhere")).teams.clear()
        gone = make_user("Buyer", name="gone")
        User.objects.filter(pk=gone.pk).update(is_active=False)

        ran = call("submit_brief", written(tmp_path, right_brief()), "--as", name)

        assert ran.code == 2
        assert ran.err
        assert_no_campaign()


@pytest.fixture
def office(committed_db: Database, faulty: FakeSeller) -> User:
    """A buyer, an approver, and one seller of display, all committed."""
    tools = [
        "get_products",
        "create_media_buy",
        "get_media_buys",
        "get_task_status",
        "list_tasks",
        "sync_accounts",
    ]
    make_advertiser()
    make_seller("Faulty", url=faulty.url, token=faulty.token, tools=tools)
    make_user("Approver", name="ann")
    return make_user("Buyer", name="bo")


def watched(*arguments: str) -> Ran:
    """The command as a process, while this one does the workers' work."""
    with started("submit_brief", *arguments) as process:

        def work() -> bool:
            drain()
            async_to_sync(sweep_once)()
            return process.poll() is not None

        until(work, "submit_brief ends")
        return ended(process)


def test_waiting_ends_where_a_person_is_needed(office: User, tmp_path: Path) -> None:
    asked = right_brief(channels=["display"])

    ran = watched(written(tmp_path, asked), "--wait", _LONG, "--json")

    assert ran.code == 0, ran.err
    assert ran.json["status"] == "awaiting_approval"
    assert [deal["status"] for deal in ran.json["deals"]] == ["quoted"]
    assert ran.json["deals"][0]["total"] == "250000.0000"
    assert [approval["may_decide"] for approval in ran.json["approvals"]] == [["ann"]]


def test_people_are_told_whom_it_waits_for(office: User, tmp_path: Path) -> None:
    ran = watched(written(tmp_path, right_brief(channels=["display"])), "--wait", _LONG)

    assert ran.code == 0, ran.err
    assert "waits for ann: " in ran.out
    assert "250,000" in ran.out


def test_waiting_ends_with_a_campaign_that_fails(office: User, tmp_path: Path) -> None:
    ran = watched(written(tmp_path, right_brief(channels=["cinema"])), "--wait", _LONG, "--json")

    assert ran.code == 1
    assert ran.json["status"] == "failed"
    assert ran.json["deals"] == []


def test_waiting_ends_with_its_time(office: User, tmp_path: Path) -> None:
    ran = call("submit_brief", written(tmp_path, right_brief()), "--wait", "0.2", "--as", "bo")

    assert ran.code == 1
    assert "has not ended within 0.2 s; it goes on" in ran.err
    assert Campaign.objects.get().status == "brief_received"


@pytest.mark.parametrize("seconds", ["-1", "1e9", "nan"])
def test_a_wait_that_makes_no_sense(office: User, tmp_path: Path, seconds: str) -> None:
    assert call("submit_brief", written(tmp_path, right_brief()), "--wait", seconds).code == 2
    assert_no_campaign()


def test_standard_input_is_read(office: User) -> None:
    text = json.dumps(right_brief()).encode()

    right = run("submit_brief", "-", "--json", "--as", "bo", stdin=text)
    half = run("submit_brief", "-", "--json", "--as", "bo", stdin=text[:100])
    wrong = run("submit_brief", "-", "--json", "--as", "bo", stdin=text.replace(b"250000", b"-250000"))

    assert (right.code, half.code, wrong.code) == (0, 2, 1)
    assert right.json["status"] == "brief_received"
    assert "not JSON" in half.json["error"]
    assert [problem["field"] for problem in wrong.json["problems"]] == ["budget.total"]
    assert Campaign.objects.count() == 2
