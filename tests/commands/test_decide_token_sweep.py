"""decide, api_token, sweep."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from knox.auth import TokenAuthentication

from orders.models import Deal, DealStatus
from orders.questions import ask_deal
from tasks_app.approvals.models import Approval, Decision
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.models import Operation
from tasks_app.people.security_models import ApiToken
from tests.commands.running import call
from tests.database import Database
from tests.factories import make_deal, make_seller, make_team, make_user
from tests.fake_seller.driver import FakeSeller


@pytest.fixture
def asked(db: None) -> tuple[Deal, Approval]:
    """A deal put forward by a buyer, and the question about it."""
    buyer = make_user("Buyer", name="bo")
    deal = make_deal(requested_by=f"human:{buyer.pk}")
    return deal, ask_deal(deal)


def read(approval: Approval) -> tuple[str, str]:
    """What the person was shown."""
    return "--digest", approval.evidence_digest


def assert_undecided(deal: Deal, approval: Approval) -> None:
    deal.refresh_from_db()
    approval.refresh_from_db()
    assert (deal.status, approval.status) == (DealStatus.QUOTED, "open")
    assert not Decision.objects.exists()


class TestDecide:
    def test_approving_by_reference(self, asked: tuple[Deal, Approval]) -> None:
        deal, approval = asked
        make_user("Approver", name="ann")

        ran = call(
            "decide",
            approval.reference.lower(),
            "approve",
            "--as",
            "ann",
            "--comment",
            "Go.",
            "--json",
            *read(approval),
        )

        deal.refresh_from_db()
        assert ran.code == 0
        assert ran.json["status"] == "approved"
        assert deal.status == DealStatus.ACCEPTED
        assert Decision.objects.get().comment == "Go."

    def test_rejecting_by_id(self, asked: tuple[Deal, Approval]) -> None:
        deal, approval = asked
        make_user("Approver", name="ann")

        ran = call(
            "decide", str(approval.pk), "reject", "--as", "ann", "--comment", "Too dear.", *read(approval)
        )

        deal.refresh_from_db()
        assert ran.code == 0
        assert "rejected" in ran.out
        assert deal.status == DealStatus.CANCELLED

    def test_a_rejection_needs_a_comment(self, asked: tuple[Deal, Approval]) -> None:
        make_user("Approver", name="ann")

        ran = call("decide", asked[1].reference, "reject", "--as", "ann", *read(asked[1]))

        assert (ran.code, ran.err) == (2, "Say why you reject it.")
        assert_undecided(*asked)

    def test_nobody_decides_on_their_own_request(self, asked: tuple[Deal, Approval]) -> None:
        approval = asked[1]
        admin = make_user("Administrator", name="ada")
        Approval.objects.filter(pk=approval.pk).update(requested_by=f"human:{admin.pk}")

        ran = call("decide", approval.reference, "approve", "--as", "ada", *read(approval))

        assert ran.code == 2
        assert "asked for this yourself" in ran.err
        assert_undecided(*asked)

    @pytest.mark.parametrize("role", ["Buyer", "Finance", "Auditor"])
    def test_without_the_right_it_is_refused(self, asked: tuple[Deal, Approval], role: str) -> None:
        make_user(role, name="ann")

        ran = call("decide", asked[1].reference, "approve", "--as", "ann", *read(asked[1]))

        assert ran.code == 2
        assert "no right" in ran.err
        assert_undecided(*asked)

    def test_another_teams_approval_does_not_exist(self, asked: tuple[Deal, Approval]) -> None:
        make_user("Approver", name="ann", team=make_team("Elsewhere"))

        theirs = call("decide", asked[1].reference, "approve", "--as", "ann", *read(asked[1]))
        unknown = call("decide", "APR-1999-000001", "approve", "--as", "ann")

        assert (theirs.code, unknown.code) == (2, 2)
        assert theirs.err == unknown.err
        assert_undecided(*asked)

    def test_only_once(self, asked: tuple[Deal, Approval]) -> None:
        for name in ("ann", "abe"):
            make_user("Approver", name=name)
        assert call("decide", asked[1].reference, "approve", "--as", "ann", *read(asked[1])).code == 0

        ran = call(
            "decide",
            asked[1].reference,
            "reject",
            "--as",
            "abe",
            "--comment",
            "No.",
            "--json",
            *read(asked[1]),
        )

        assert ran.code == 2
        assert "approved already" in ran.json["error"]
        assert Decision.objects.count() == 1

    def test_who_is_gone_decides_nothing(self, asked: tuple[Deal, Approval]) -> None:
        user = make_user("Approver", name="ann")
        user.is_active = False
        user.save()

        assert call("decide", asked[1].reference, "approve", "--as", "ann", *read(asked[1])).code == 2
        assert call("decide", asked[1].reference, "approve", "--as", "nobody").code == 2
        assert_undecided(*asked)


@pytest.mark.django_db
class TestApiToken:
    def test_it_opens_the_api_and_only_its_digest_is_kept(self) -> None:
        user, began = make_user("Integration", name="robot"), timezone.now()

        ran = call("api_token", "robot", "--expires", "7", "--json")

        token = ran.json["token"]
        found, kept = TokenAuthentication().authenticate_credentials(token.encode())
        assert ran.code == 0
        assert found == user
        assert token not in (kept.digest, kept.token_key)
        assert began <= kept.expiry - timedelta(days=7) <= timezone.now()

    def test_people_get_the_bare_token(self) -> None:
        make_user("Integration", name="robot")

        ran = call("api_token", "robot")

        assert TokenAuthentication().authenticate_credentials(ran.out.strip().encode())

    @pytest.mark.parametrize("days", ["0", "-1", "999999999"])
    def test_a_token_has_an_end(self, days: str) -> None:
        make_user("Integration", name="robot")

        assert call("api_token", "robot", "--expires", days).code == 2
        assert not ApiToken.objects.exists()

    def test_not_for_those_who_are_gone(self) -> None:
        user = make_user("Integration", name="robot")
        user.is_active = False
        user.save()

        for name in ("robot", "nobody"):
            assert call("api_token", name).code == 2
        assert not ApiToken.objects.exists()


def test_sweep_sends_what_is_due_and_counts(committed_db: Database, faulty: FakeSeller) -> None:
    seller = make_seller(url=faulty.url, token=faulty.token)
    asked = operation_ensure(
        purpose="test", task_type="get_products", seller=seller, arguments={"buying_mode": "wholesale"},
        actor="system", team=None,
    )  # fmt: skip

    first, second = call("sweep", "--json"), call("sweep")

    assert (first.code, second.code) == (0, 0)
    assert first.json["sent"] == 1
    assert first.json["polled"] == first.json["overdue"] == 0
    assert "sent" in second.out
    assert len(faulty.requests("get_products")) == 1
    assert Operation.objects.get(pk=asked.pk).status == "completed"
