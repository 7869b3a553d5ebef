"""A task that a seller lists for another account is nobody's who waits for an answer under his own."""

from __future__ import annotations

from typing import Any

import pytest

from tasks_app.operations.comparison import Finding, Verdict
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.reconcile import tasks_reconcile
from tasks_app.people.models import Team
from tasks_app.sellers.models import Account, Seller
from tests.adcp.raw_server import serve
from tests.adcp.scripted_seller import mcp_result, rpc, seller
from tests.factories import make_account, make_advertiser, make_seller, make_team
from tests.operations.making import answer, see, stand

pytestmark = pytest.mark.django_db
THEIRS = {"task_id": "task-of-b", "task_type": "create_media_buy", "status": "working"}


def listing(*listed_for: str) -> Any:
    """A seller that lists one task for these accounts."""

    def answer(request: Any) -> Any:
        named = (request.json["params"]["arguments"].get("account") or {}).get("account_id", "")
        tasks = [THEIRS] if named in listed_for else []
        return rpc(request, result=mcp_result({"status": "completed", "tasks": tasks}))

    return serve(seller(answer))


def account(made: Seller, name: str, account_id: str, team: Team) -> Account:
    kept = make_account(make_advertiser(name, team=team), made)
    Account.objects.filter(pk=kept.pk).update(reference={"account_id": account_id})
    return Account.objects.get(pk=kept.pk)


def found(*listed_for: str, has_account: bool = True) -> tuple[Finding, Team, Team]:
    """What is found while team A's purchase waits for its answer, of a task listed for these accounts."""
    ours, others = make_team("Halden & Marsh"), make_team("Another house")
    with listing(*listed_for) as server:
        made = make_seller(url=f"{server.url}/mcp")
        a = account(made, "Lindqvist Coffee", "acc-a", ours)
        account(made, "Northwind", "acc-b", others)
        stand(S.CALLING_ADCP, seller=made, team=ours, account=a if has_account else None)
        (reading,) = tasks_reconcile([Seller.objects.get(pk=made.pk)], 20)
    assert reading.unread == ""
    (finding,) = reading.findings
    return finding, ours, others


@pytest.mark.parametrize("has_account", [True, False])
def test_a_task_of_another_teams_account_is_that_teams(has_account: bool) -> None:
    finding, _ours, others = found("acc-b", has_account=has_account)
    assert (finding.verdict, finding.team_id) == (Verdict.ORPHANED, others.pk)
    assert finding.note == "create_media_buy", "nothing is told of who waits"


@pytest.mark.parametrize(
    "listed_for", [("acc-a",), ("acc-a", "acc-b")], ids=["its own", "whichever is asked"]
)
@pytest.mark.parametrize("has_account", [True, False])
def test_a_task_of_its_own_account_may_be_its(listed_for: tuple[str, ...], has_account: bool) -> None:
    finding, ours, _others = found(*listed_for, has_account=has_account)
    assert (finding.verdict, finding.team_id) == (Verdict.UNANSWERED, ours.pk)


@pytest.mark.parametrize("whose", ["our own", "another team's", "another client's"])
def test_an_answer_with_a_task_that_another_has_names_that_to_those_who_see_it_alone(whose: str) -> None:
    team = make_team("Another house") if whose == "another team's" else make_team()
    holder = stand(S.SUBMITTED, team=team)
    if whose == "another client's":
        Operation.objects.filter(pk=holder.pk).update(advertiser=make_advertiser("Northwind"))
    operation = stand(S.CALLING_ADCP, seller=holder.seller)
    kept = see(operation, answer("submitted", task_id=holder.task_id))
    conflict = Conflict.objects.get(operation=operation)
    told = " ".join([kept.note, conflict.note, Operation.objects.get(pk=operation.pk).message])
    assert (holder.reference in told) == (whose == "our own"), told
    assert f"is that of {'another operation' if whose != 'our own' else holder.reference} already" in told
