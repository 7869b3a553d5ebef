"""decide: beside a verdict, claims, reassigns, comments, decides in part and in somebody's place."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from orders.amounts import deal_amounts
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.delegation import delegation_create
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.records import ApprovalNote
from tasks_app.people.models import User
from tests.commands.running import call
from tests.factories import make_deal, make_team, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def named() -> str:
    for name in ("ann", "abe"):
        make_user("Approver", name=name)
    return ask_deal(make_deal()).reference


def test_claim_release_reassign_comment(named: str) -> None:
    assert call("decide", named, "claim", "--as", "ann", "--json").json["claimed_by"].startswith("human:")
    assert "claimed" not in call("decide", named, "claim", "--as", "abe").out
    assert call("decide", named, "release", "--as", "ann").code == 0
    assert call("decide", named, "reassign", "--as", "ann").code == 2
    assert call("decide", named, "reassign", "--as", "ann", "--to", "abe", "--comment", "Yours").code == 0
    assert "commented" in call("decide", named, "comment", "--as", "ann", "--comment", "Hm.").out
    assert call("decide", named, "comment", "--as", "ann").code == 2
    assert list(ApprovalNote.objects.values_list("kind", flat=True)) == [
        "claim", "release", "reassign", "comment",
    ]  # fmt: skip
    assert not Decision.objects.exists()


def test_in_part(named: str) -> None:
    read = ("--digest", Approval.objects.get().evidence_digest)
    for wrong in ("1", "x=5", "1=many", "1=1"):
        assert call("decide", named, "approve", "--as", "ann", "--line", wrong, *read).code == 2
    assert not Decision.objects.exists()
    for again in ("1=6000", "1=9000", "01=6000"):
        twice = ("--line", "1=9000", "--line", again)
        assert "Name each line once" in call("decide", named, "approve", "--as", "ann", *twice, *read).err
    ran = call("decide", named, "approve", "--as", "ann", "--line", "1=9000", "--json", *read)
    assert (ran.code, ran.json["status"]) == (0, "approved")
    assert ran.json["approval"] != named
    assert deal_amounts(Deal.objects.get()).approved == Decimal(9000)


def test_what_is_asked_is_shown_and_a_verdict_names_it(named: str) -> None:
    shown = call("decide", named, "show", "--as", "ann", "--json").json
    approval = Approval.objects.get()
    assert (shown["evidence"], shown["digest"]) == (approval.evidence, approval.evidence_digest)
    make_user("Approver", name="eve", team=make_team("Elsewhere"))
    assert call("decide", named, "show", "--as", "eve").code == 2

    for said in ([], ["--digest", "0" * 64]):
        refused = call("decide", named, "approve", "--as", "ann", *said)
        assert refused.code == 2
        assert f"Asked now: {named} {approval.title}, --digest {approval.evidence_digest}" in refused.err
    assert not Decision.objects.exists()
    assert call("decide", named, "approve", "--as", "ann", "--digest", shown["digest"]).code == 0


def test_on_what_was_read_and_in_somebodys_place(named: str) -> None:
    approval = Approval.objects.get()
    assert call("decide", named, "approve", "--as", "ann", "--digest", "0" * 64).code == 2
    assert call("decide", named, "approve", "--as", "ann", "--for", "abe").code == 2
    ann, abe = User.objects.get(username="ann"), User.objects.get(username="abe")
    delegation_create(
        user=abe,
        delegator=abe,
        delegate=ann,
        starts_at=clock.now() - timedelta(hours=1),
        ends_at=clock.now() + timedelta(days=1),
    )
    digest = approval.evidence_digest
    assert call("decide", named, "approve", "--as", "ann", "--for", "abe", "--digest", digest).code == 0
    assert Decision.objects.get().on_behalf_of_name == "abe"
