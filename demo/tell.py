"""Telling the story: through the REST API as the people it is about, and in tables at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests

from campaigns.models import ENDED, Campaign
from config.processes import ProcessGroup
from demo.run import SECOND_FACTOR_ROLE, DemoError, Progress
from demo.story import STORY, Tale
from orders.models import Deal
from tasks_app.jobs.models import Step
from tasks_app.lifecycle.verify import entity_models, verify_all
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.people.security_models import ApiToken

_LIMIT_S = 120
_PATIENCE_S = 60  # with one answer of the API
_YAML = {"Content-Type": "application/yaml"}
_JSON = {"Content-Type": "application/json"}
_QUESTION = "How does Lindqvist Cold Brew stand?"


@dataclass(frozen=True, kw_only=True)
class Told:
    """One tale and the campaign it became."""

    tale: Tale
    campaign_id: str
    reference: str


class Person:
    """Somebody's API session: a token that lasts as long as the demo."""

    def __init__(self, url: str, username: str) -> None:
        user = User.objects.get(username=username)
        self._token, secret = ApiToken.objects.create(user)
        self._url = f"{url}/api/v1"
        self._http = requests.Session()
        self._http.headers["Authorization"] = f"Token {secret}"

    def get(self, path: str, **params: Any) -> Any:
        return self._answer(self._http.get(f"{self._url}{path}", params=params, timeout=_PATIENCE_S))

    def post(self, path: str, **request: Any) -> Any:
        return self._answer(self._http.post(f"{self._url}{path}", timeout=_PATIENCE_S, **request))

    def leave(self) -> None:
        self._token.delete()

    def _answer(self, response: requests.Response) -> Any:
        if not response.ok:
            raise DemoError(
                f"{response.request.method} {response.url}: {response.status_code} {response.text[:300]}"
            )
        return response.json()


def interactive(
    group: ProcessGroup, progress: Progress, url: str, logins: dict[str, tuple[str, str]]
) -> None:
    """Submit the briefs, say what to click, and keep everything going until Ctrl-C."""
    buyer = Person(url, logins["Buyer"][0])
    try:
        submit(buyer, progress)
        converse(buyer, group)
    finally:
        buyer.leave()
    approver, second = logins["Approver"], logins["Administrator"]
    print(f"\n  Flightdeck runs at {url}/admin/\n")
    print("  Logins (user name, password):")
    for role, (username, password) in logins.items():
        if role == "Integration":  # a service account has no page to log in to
            continue
        app = ", then sets up an authenticator app" if role == SECOND_FACTOR_ROLE else ""
        print(f"    {role:<14} {username:<10} {password}{app}")
    print(
        f"\n  What to click:\n"
        f"    1. Log in as {approver[0]} (Approver): Today shows what waits for you.\n"
        f"    2. Open an approval: money, terms, reasons. Approve it, or reject it with a comment.\n"
        f"       From 100,000 USD on two people decide: {second[0]} (Administrator) is the second.\n"
        f"    3. Open the campaign: its job graph moves, sellers answer by reply, webhook and poll.\n"
        f"    4. Aldous Allergy Relief comes back booked differently: decide on that too.\n"
        f"    5. Open a deal for its trail: who moved it, when, why; the hashes verify.\n"
        f"    6. On any page press Ctrl J and ask the assistant: What is this waiting for?\n"
        f"  The API: {url}/api/docs/, with a token from: .venv/bin/python manage.py api_token {approver[0]}\n"
        f"  Ctrl-C stops everything that was started here.\n",
        flush=True,
    )
    group.wait()


def headless(group: ProcessGroup, progress: Progress, url: str) -> int:
    """The same story without a person; tables, a closing JSON line, and the exit code."""
    buyer, approvers = Person(url, "tomas"), (Person(url, "maya"), Person(url, "admin"))
    first = Operation.objects.order_by("-id").values_list("id", flat=True).first()
    try:
        told = submit(buyer, progress)
        ended = group.wait(lambda: _go_on(approvers, told, progress), timeout_s=_LIMIT_S)
        replied = converse(buyer, group)
    finally:
        buyer.leave()
        for approver in approvers:
            approver.leave()
    for one in told:
        _table(one)
    summary = _summary(told, first, progress)
    as_expected = [_came_true(one) for one in told]
    group.stop()  # first, so that the summary is the last line
    print(json.dumps(summary), flush=True)
    return 0 if ended and replied and all(as_expected) and summary["audit_ok"] else 1


def submit(buyer: Person, progress: Progress) -> list[Told]:
    """Post every brief as the buyer."""
    told = []
    for tale in STORY:
        headers = _JSON if tale.path.suffix == ".json" else _YAML
        made = buyer.post("/campaigns/", data=tale.path.read_bytes(), headers=headers)
        progress.say(f"{made['reference']} {made['name']}: {made['status']}")
        for problem in made["problems"]:
            progress.say(f"    {problem['field']}: {problem['problem']}")
        told.append(Told(tale=tale, campaign_id=made["id"], reference=made["reference"]))
    return told


def converse(buyer: Person, group: ProcessGroup) -> bool:
    """Ask the assistant one question and print its reply. Return whether there is one."""
    session = buyer.post("/assistant/sessions/")["id"]
    turn = buyer.post(f"/assistant/sessions/{session}/turns/", json={"question": _QUESTION})
    address = f"/assistant/turns/{turn['turn_id']}/"
    group.wait(lambda: buyer.get(address)["reply"] != "", timeout_s=_PATIENCE_S)
    reply: str = buyer.get(address)["reply"]
    print(f"\n  Tomás asks the assistant: {_QUESTION}\n    {reply}", flush=True)
    return reply != ""


def _go_on(approvers: Sequence[Person], told: list[Told], progress: Progress) -> bool:
    """Decide what waits, by as many as its policies want; True once every campaign of this run has ended and
    nothing of theirs waits."""
    mine = {str(c.pk): c for c in Campaign.objects.filter(pk__in=[one.campaign_id for one in told])}
    deals = {str(d.pk): d for d in Deal.objects.filter(campaign_id__in=mine).select_related("seller")}
    waiting = [a for a in _pending(approvers[0]) if a["subject_id"] in deals]
    by_campaign = {one.campaign_id: one.tale for one in told}
    for approval in waiting:
        deal = deals[approval["subject_id"]]
        tale = by_campaign[str(deal.campaign_id)]
        reject = approval["kind"] == "deal" and deal.seller.name in tale.turned_down
        verdict, comment = ("reject", "Rates were better last winter.") if reject else ("approve", "Go.")
        for approver in approvers[: 1 if reject else approval["quorum"]]:
            digest = approval["evidence_digest"]  # of what the list showed
            said = {"verdict": verdict, "comment": comment, "evidence_digest": digest}
            approver.post(f"/approvals/{approval['id']}/decide/", json=said)
        progress.say(f"{approval['reference']} {approval['title']}: {verdict}")
    return not waiting and all(c.status in ENDED for c in mine.values())


def _pending(approver: Person) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = approver.get("/approvals/", status="pending", page_size=200)["results"]
    return found


def _table(one: Told) -> None:
    """Step, seller, channel, state, how it was settled, seconds."""
    campaign = Campaign.objects.get(pk=one.campaign_id)
    print(f"\n{campaign.reference}  {campaign.name}: {campaign.status}")
    for problem in campaign.problems:
        print(f"    {problem['field']}: {problem['problem']}")
    rows = [("step", "seller", "channel", "state", "settled by", "seconds"), *_rows(campaign)]
    if len(rows) == 1:
        return
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    for row in rows:
        print("    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rows(campaign: Campaign) -> list[tuple[str, ...]]:
    deals = {
        deal.pk: deal
        for deal in Deal.objects.filter(campaign_id=campaign.pk)
        .select_related("seller")
        .prefetch_related("lines")
    }
    rows = [_row(operation, deals) for operation in _operations(campaign)]
    for deal in deals.values():
        if deal.status == "cancelled":
            rows.append(("approval", deal.seller.name, _channels(deal), "deal cancelled", "person", ""))
    return rows


def _row(operation: Operation, deals: Mapping[Any, Deal]) -> tuple[str, ...]:
    deal = deals.get(operation.subject_id)
    state = f"{operation.status}, deal {deal.status}" if deal else operation.status
    took = ""
    if operation.settled_at and operation.sent_at:
        took = f"{(operation.settled_at - operation.sent_at).total_seconds():.1f}"
    channels = _channels(deal) if deal else ""
    return (operation.task_type, operation.seller.name, channels, state, operation.settled_by, took)


def _channels(deal: Deal) -> str:
    return ", ".join(line.channel for line in deal.lines.all())


def _operations(campaign: Campaign) -> list[Operation]:
    """Everything asked of sellers for a campaign: by its steps, and for its deals."""
    deals = Deal.objects.filter(campaign_id=campaign.pk).values("pk")
    steps = Step.objects.filter(job__subject_id=campaign.pk) | Step.objects.filter(
        job__parent_step__job__subject_id=campaign.pk
    )
    prefixes = {f"step:{pk}" for pk in steps.values_list("pk", flat=True)}
    found = [
        o
        for o in Operation.objects.filter(purpose__startswith="step:").select_related("seller")
        if o.purpose.rsplit(":", 1)[0] in prefixes
    ]
    found += Operation.objects.filter(subject_type="deal", subject_id__in=deals).select_related("seller")
    return sorted(found, key=lambda o: o.pk)


def _came_true(one: Told) -> bool:
    campaign = Campaign.objects.get(pk=one.campaign_id)
    fates = {name: len(campaign.outcome.get(name, [])) for name in ("booked", "rejected", "failed")}
    expected = {name: getattr(one.tale, name) for name in fates}
    if campaign.status == one.tale.ends and fates == expected:
        return True
    print(f"{campaign.reference}: expected {one.tale.ends} {expected}, got {campaign.status} {fates}")
    return False


def _summary(told: list[Told], first: Any, progress: Progress) -> dict[str, Any]:
    made = Operation.objects.filter(pk__gt=first) if first else Operation.objects.all()
    campaigns = Campaign.objects.filter(pk__in=[one.campaign_id for one in told])
    by = {channel: made.filter(settled_by=channel).count() for channel in ("reply", "webhook", "poll")}
    fates = {
        fate: sum(len(c.outcome.get(fate, [])) for c in campaigns)
        for fate in ("booked", "rejected", "failed")
    }
    audit_ok = all(v.ok for entity in entity_models() for _, v in verify_all(entity))
    return {
        "campaigns": len(told),
        **fates,
        "operations": made.count(),
        "by_reply": by["reply"],
        "by_webhook": by["webhook"],
        "by_poll": by["poll"],
        "audit_ok": audit_ok,
        "seconds": round(progress.seconds, 1),
    }
