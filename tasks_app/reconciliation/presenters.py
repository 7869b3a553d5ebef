"""Findings and runs in words: what is told differently, what it means, who has it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.operations.comparison import Verdict
from tasks_app.operations.line import NOT_READ
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun

R = ReconciliationFinding.Resolution
State = ReconciliationRun.State
_WHOEVERS = "Why was kept without the team that it is for"
KINDS = {"task": "Task", "media_buy": "Media buy"}


@dataclass(frozen=True, kw_only=True)
class VerdictWords:
    """How a verdict is shown: a glyph, two or three words, what it means, what usually follows."""

    glyph: str
    word: str
    means: str
    advice: str


_VERDICTS = {
    Verdict.BOUGHT_UNKNOWN: VerdictWords(
        glyph="failed",
        word="Bought, unknown here",
        means="The seller runs a media buy that carries our ids, and no deal here is it. Money may be being "
        "spent that nobody counts.",
        advice="Adopt it: then it is counted, and an approver keeps or cancels it. Find out how it was lost.",
    ),
    Verdict.ORPHANED: VerdictWords(
        glyph="overdue",
        word="Orphaned",
        means="The seller works on a task that nobody here asked for, as far as we know.",
        advice="It is observed as an operation of its own; its end tells what it was for.",
    ),
    Verdict.MISSING: VerdictWords(
        glyph="overdue",
        word="Missing there",
        means="We wait for it, and the seller says that it does not know it.",
        advice="Ask once more; if it stays unknown, write to the seller before anything is sent again.",
    ),
    Verdict.BEHIND: VerdictWords(
        glyph="waiting",
        word="Behind",
        means="It has ended at the seller, and not here; or was bought late, and people are asked about it.",
        advice="It is asked for its result, or decided in the queue. If it stays behind, the seller lists an"
        " end it does not tell.",
    ),
    Verdict.AHEAD: VerdictWords(
        glyph="differs",
        word="Ahead",
        means="It has ended here, and still runs at the seller.",
        advice="What runs there may cost money: have it cancelled, or keep it as a deal.",
    ),
    Verdict.UNCLEAR: VerdictWords(
        glyph="waiting",
        word="Status of its own",
        means="The seller gives it a status that is none of AdCP’s, so nobody knows how it stands.",
        advice="It is asked for again. If it stays so, ask the seller what it means and settle it by hand.",
    ),
    Verdict.EXTERNAL: VerdictWords(
        glyph="seller",
        word="Bought without us",
        means="The account has a media buy at the seller that was not bought through here.",
        advice="Adopt it to follow its delivery here; or leave it.",
    ),
}
_LOUDEST_FIRST = [verdict.value for verdict in Verdict]
_UNKNOWN = VerdictWords(glyph="waiting", word="Told differently", means="", advice="")
_ENDED = {
    R.OBSERVED: "An operation follows it",
    R.POLLED: "Asked for its result",
    R.MIRRORED: "The deal followed the seller",
    R.ASKED: "People are asked about it",
    R.ADOPTED: "Adopted",
    R.SEEN: "May stay so",
    R.GONE: "Not found any more",
}
_STATES = {
    State.ASKED: ("waiting", "Waits for a worker"),
    State.RUNNING: ("running", "Running"),
    State.ENDED: ("done", "Ended"),
    State.LOST: ("failed", "Lost"),
}


def verdict_words(verdict: str) -> VerdictWords:
    """How a verdict is shown."""
    return _VERDICTS.get(Verdict(verdict), _UNKNOWN) if verdict in list(Verdict) else _UNKNOWN


def finding_face(finding: ReconciliationFinding) -> tuple[str, str]:
    """Glyph and word of where a finding stands."""
    if finding.resolved_at is not None:
        return "done", _ENDED[R(finding.resolution)]
    return ("person", "Waits for a person") if finding.differs else ("waiting", "For information")


def run_face(run: ReconciliationRun) -> tuple[str, str]:
    """Glyph and word of where a run stands."""
    if run.state == State.ENDED and run.error:
        return "failed", "Failed"
    if run.state == State.ENDED and run.differ:
        return "differs", f"{run.differ} differ" if run.differ > 1 else "1 differs"
    return ("done", "In step") if run.state == State.ENDED else _STATES[State(run.state)]


def counts_words(counts: Mapping[str, int]) -> str:
    """2 orphaned, 7 in step."""
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items() if number)


def report_rows(
    report: Sequence[Mapping[str, Any]], names: Mapping[str, str], teams: Collection[str] | None
) -> list[dict[str, Any]]:
    """A kept report for one viewer: each seller by name with its rows; `teams` are those whose rows may be
    seen (empty text: of nobody for certain), None: all."""
    return [
        {
            "name": names.get(part["seller"], part["seller"]),
            "unread": list(dict.fromkeys(_unread(one, teams) for one in part["unread"])),
            "notes": list(dict.fromkeys(_notes(part, teams))),
            "rows": sorted(
                (
                    {**row, "kind": label, "words": verdict_words(row["verdict"])}
                    for kind, label in KINDS.items()
                    for row in part.get(f"{kind}s", ())
                    if _seen_by(row, teams)
                ),
                key=lambda row: _LOUDEST_FIRST.index(row["verdict"]),
            ),
        }
        for part in report
    ]


def _unread(told: Mapping[str, Any] | str, teams: Collection[str] | None) -> str:
    """Why a seller could not be read: its own words for those whose account they are on. Runs of old kept the
    words alone, which are whoever's."""
    if isinstance(told, str):
        return told if teams is None else _WHOEVERS
    return str(told["why"] if teams is None or set(told["teams"]) & set(teams) else told["ours"])


def _notes(part: Mapping[str, Any], teams: Collection[str] | None) -> Iterator[str]:
    """What could not be compared. Runs of old kept what was refused without its teams."""
    yield from (note for note in part["notes"] if teams is None or not note.startswith(NOT_READ))
    yield from (one["note"] for one in part["unnamed"] if _seen_by(one, teams))


def _seen_by(row: Mapping[str, str], teams: Collection[str] | None) -> bool:
    return teams is None or row["team"] in teams


def _finding_names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    rows = ReconciliationFinding.objects.filter(pk__in=ids).only("theirs", "verdict")
    return {
        row.pk: EntityName(
            reference=row.theirs[:60],
            name=f"{verdict_words(row.verdict).word}: {row.theirs[:60]}",
            link=link_to(ReconciliationFinding, row.pk),
        )
        for row in rows
    }


def _run_names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    rows = ReconciliationRun.objects.filter(pk__in=ids).only("asked_at", "trigger")
    return {
        row.pk: EntityName(reference=f"Reconciliation {row}", link=link_to(ReconciliationRun, row.pk))
        for row in rows
    }


namer_register("finding", _finding_names)
namer_register("reconciliation", _run_names)
