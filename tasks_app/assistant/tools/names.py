"""Objects by the names that people call them by, also when a name is incomplete or misspelt."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import Field
from rapidfuzz import fuzz

from tasks_app.assistant.tools.registry import Arguments, Link, Table, Tool, ToolAnswer
from tasks_app.desk.explain import explainer_of
from tasks_app.people.models import User
from tasks_app.people.roles import USE_ASSISTANT

#: Of the objects of one kind that a user sees: id, reference (or short name), and the words people use.
Names = Callable[[User], Iterable[tuple[uuid.UUID, str, tuple[str, ...]]]]

FIND = "find_objects"
_ENOUGH = 66  # of 100: two words of three
_LIKE = 70  # of 100: less is another word
_MOST = 8
_WORD = re.compile(r"[^\W_]+")
_names: dict[str, Names] = {}


def names_register(kind: str, names: Names) -> None:
    """Let objects of a kind be found by name. The kind has an explainer."""
    _names[kind] = names


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An object that a name may mean.

    Attributes:
        score: 0 to 100: how much of the name is found in the object's words.
        coverage: 0 to 100: how much of the object's words the name says. A seller's name covers the seller
            better than its deals, which are called by more than that.
    """

    kind: str
    id: uuid.UUID
    reference: str
    score: float
    coverage: float


class FindArguments(Arguments):
    """Arguments of a search by name."""

    text: str = Field(
        description="A name or words of it, such as 'Halvorsen TV'", min_length=1, max_length=120
    )
    kinds: list[str] = Field(
        default=[], description="Kinds to look among: campaign, deal, seller; all if empty"
    )


def candidates_named(text: str, user: User, kinds: Sequence[str] = ()) -> list[Candidate]:
    """Return the objects that a name may mean, the likeliest first, at most eight."""
    wanted = _words(text)
    found = [
        _compared(kind, pk, reference, wanted, called)
        for kind, names in _names.items()
        if (not kinds or kind in kinds) and user.has_perm(explainer_of(kind).right)
        for pk, reference, called in names(user)
    ]
    likely = [one for one in found if one.score >= _ENOUGH]
    return sorted(likely, key=lambda one: (-one.score, -one.coverage, one.reference))[:_MOST]


def _find(user: User, arguments: FindArguments) -> ToolAnswer:
    found = candidates_named(arguments.text, user, arguments.kinds)
    rows = [(one, explainer_of(one.kind)) for one in found]
    shown = []
    for one, explainer in rows:
        row = explainer.rows(user).get(pk=one.id)
        link = Link(kind=one.kind, id=one.id, label=one.reference, url=explainer.link(row))
        shown.append((one, explainer.title(row), link))
    if not shown:
        return ToolAnswer(
            summary=f"Nothing that you may see is called “{arguments.text}”.", data={"candidates": []}
        )
    return ToolAnswer(
        summary=f"{len(shown)} may be meant by “{arguments.text}”.",
        table=Table(columns=("Reference", "Title"), rows=[(one.reference, title) for one, title, _ in shown]),
        links=[link for _, _, link in shown],
        data={
            "candidates": [
                {
                    "kind": one.kind,
                    "reference": one.reference,
                    "title": title,
                    "score": round(one.score),
                    "coverage": round(one.coverage),
                }
                for one, title, _ in shown
            ]
        },
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _compared(
    kind: str, pk: uuid.UUID, reference: str, wanted: Sequence[str], called: Sequence[str]
) -> Candidate:
    own = {word for name in called for word in _words(name)}
    likeness = [max((_likeness(word, other) for other in own), default=0.0) for word in wanted]
    total = sum(likeness)
    return Candidate(
        kind=kind,
        id=pk,
        reference=reference,
        score=total / len(wanted) if wanted else 0.0,
        coverage=min(100.0, total / len(own)) if own else 0.0,
    )


def _likeness(word: str, other: str) -> float:
    """Return the likeness of two words. Short words and numbers have to be equal: a CTV is no TV."""
    if min(len(word), len(other)) < 4 or word.isdigit():
        return 100.0 if word == other else 0.0
    if other.startswith(word):
        return 98.0
    ratio = fuzz.ratio(word, other)
    return ratio if ratio >= _LIKE else 0.0


FIND_OBJECTS = Tool(
    name=FIND,
    description="Finds campaigns, deals and sellers by name; returns references for the other tools.",
    arguments=FindArguments,
    right=USE_ASSISTANT,
    run=_find,
)
