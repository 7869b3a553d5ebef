"""Somebody who is logged in opens pages and decides, one request at a time, on a kept connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import quote

import requests

from bench.pages import DECISIONS, REQUESTS, STOCK
from bench.pages.stage import Stage
from bench.pages.taken import MILLISECONDS, QUERIES

ADMIN = "/admin"
APPROVALS = f"{ADMIN}/tasks_app/approval/"
CAMPAIGNS = f"{ADMIN}/campaigns/campaign/"
FIND = f"{ADMIN}/find/"
_STOCK = f"/{STOCK}/orders/deal/"
_COOKIE = "sessionid"


@dataclass
class Taken:
    """Of one kind of request in one round: milliseconds at the server, and those of the stock list asked
    beside each; most queries of one."""

    milliseconds: list[float] = field(default_factory=list)
    stock: list[float] = field(default_factory=list)
    queries: int = 0
    slowest: str = ""

    def add(self, answer: requests.Response, beside: requests.Response) -> None:
        took = float(answer.headers[MILLISECONDS])
        if took >= max(self.milliseconds, default=0.0):
            self.slowest = str(answer.request.path_url)
        self.milliseconds.append(took)
        self.stock.append(float(beside.headers[MILLISECONDS]))
        self.queries = max(self.queries, int(answer.headers[QUERIES]))

    @property
    def p95(self) -> float:
        return _p95(self.milliseconds)

    @property
    def ratio(self) -> float:
        """Our 95th percentile to the stock list's."""
        return self.p95 / _p95(self.stock)


def _p95(milliseconds: list[float]) -> float:
    """The 95th percentile, by the nearest rank."""
    ranked = sorted(milliseconds)
    return ranked[-(-95 * len(ranked) // 100) - 1]


class Person:
    """A session's browser, as far as the server sees one."""

    def __init__(self, stage: Stage, session: str) -> None:
        self._url = stage.url
        self._http = requests.Session()
        self._http.cookies.set(_COOKIE, session)

    def get(self, address: str) -> requests.Response:
        """Raises SystemExit where the page is not shown."""
        answer = self._http.get(self._url + address, allow_redirects=False, timeout=120)
        sent_on = answer.headers.get("Location", "")
        # A search that finds one thing alone sends on to it.
        if answer.status_code == 200 or (address.startswith(FIND) and "/change/" in sent_on):
            return answer
        raise SystemExit(f"{address} answers {answer.status_code} {sent_on}")

    def decide(self, approval: str) -> requests.Response:
        """Approve it on its own page, on the digest shown there. Raises SystemExit where it is refused."""
        address = f"{APPROVALS}{approval}/change/"
        fields = _hidden(self.get(address).text)
        said = {**fields, "decision": "approve", "comment": "As planned."}
        answer = self._http.post(
            self._url + address, said, headers={"Referer": self._url}, allow_redirects=False, timeout=120
        )
        if answer.status_code != 302:
            raise SystemExit(f"deciding on {approval} answers {answer.status_code}")
        return answer


def pages(stage: Stage) -> dict[str, list[tuple[str, str]]]:
    """Kind to (session, address), in turn: everybody's and a small team's queue, what people may quote."""
    both = sorted(stage.lived.sessions)
    return {
        "queue": [(who, APPROVALS + view) for view in ("", "?view=team") for who in both],
        "dashboard": [(who, f"{ADMIN}/") for who in both],
        "search": [("all", f"{FIND}?q={quote(text)}") for text in stage.lived.quoted],
        "campaign": [("all", f"{CAMPAIGNS}{campaign}/change/") for campaign in stage.lived.campaigns],
    }


def looked(stage: Stage) -> dict[str, Taken]:
    """One round of pages: each kind `REQUESTS` times, and the stock list after each; all of them asked once
    before, to warm up."""
    people = {name: Person(stage, session) for name, session in stage.lived.sessions.items()}
    found: dict[str, Taken] = {}
    for kind, addresses in pages(stage).items():
        taken = found[kind] = Taken()
        for number in range(-len(addresses), REQUESTS):
            who, address = addresses[number % len(addresses)]
            answer, beside = people[who].get(address), people["all"].get(_STOCK)
            if number >= 0:
                taken.add(answer, beside)
    return found


def decided(stage: Stage, asked: Iterable[str]) -> Taken:
    """One round of decisions, each on an approval of its own."""
    person, taken = Person(stage, stage.lived.sessions["all"]), Taken()
    for approval in asked:
        taken.add(person.decide(approval), person.get(_STOCK))
    return taken


def share(stage: Stage, number: int) -> list[str]:
    """The approvals of one round."""
    return stage.lived.asked[number * DECISIONS : (number + 1) * DECISIONS]


class _Forms(HTMLParser):
    """The hidden fields of each form of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "form":
            self.found.append({})
        elif tag == "input" and told.get("type") == "hidden" and self.found:
            self.found[-1][told.get("name") or ""] = told.get("value") or ""


def _hidden(page: str) -> dict[str, str]:
    """The hidden fields of the form that decides on this one approval. Raises SystemExit without one."""
    forms = _Forms()
    forms.feed(page)
    for fields in forms.found:
        if "digest" in fields and "scope" not in fields:
            return fields
    raise SystemExit("an approval's page has no form that decides")
