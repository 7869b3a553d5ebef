"""Explain: what state something is in, since when, what it waits for, who can move it, and what happens if
nobody does.

The room that owns an entity registers an Explainer; what it answers is made of text builders without a
database. Pages, the API and `manage.py explain` all ask `explain` or `explain_entity`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Model, QuerySet, Value
from django.urls import reverse

from tasks_app.desk.items import joined
from tasks_app.desk.states import face
from tasks_app.people.holders import Holder, holders_of, roles_with
from tasks_app.people.models import User
from tasks_app.people.scope import advertiser_of, teams_of

_REFERENCE = re.compile(r"([A-Za-z]{2,5})-\d{4}-\d{1,12}")
_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
_NAMED = 3
NOBODY = "Nothing: it stays as it is."


class NotExplainedError(LookupError):
    """Nothing of that name, or nothing that the viewer may see."""


@dataclass(frozen=True, kw_only=True)
class Mover:
    """Somebody who can move it, and what they do. `who`: in words, for what is no person of ours (a seller, a
    worker); else `right`, which people need, where `roles` are named one of them besides. `people`: the names
    of those who can, where more than the right decides about that; None: whoever holds it."""

    does: str
    who: str = ""
    right: str = ""
    roles: tuple[str, ...] = ()
    people: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What an explainer says: sentences. No `movers`: nobody moves it any more."""

    waiting: str
    otherwise: str
    movers: tuple[Mover, ...] = ()
    deadline: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How something stands: `status` as stored, `word` where it is not the usual one for that status, `since`
    when, `team_id` whose it is (None: nobody's for certain)."""

    status: str
    since: datetime | None
    team_id: uuid.UUID | None
    word: str = ""
    glyph: str = ""


@dataclass(frozen=True, kw_only=True)
class Explainer:
    """How one kind of thing is explained. `right`: to see it; `rows`: those a viewer sees; `prefix`: of its
    references; `by`: the column that people name it by, where it has no reference."""

    label: str
    model: type[Model]
    right: str
    rows: Callable[[User], QuerySet[Any]]
    answers: Callable[[Any], Answers]
    standing: Callable[[Any], Standing]
    title: Callable[[Any], str]
    link: Callable[[Any], str]
    prefix: str = ""
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class Who:
    """Who can move it: named people and the roles that carry the right, or in words who else."""

    who: str
    does: str
    people: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The five answers about one thing."""

    entity: str
    label: str
    id: str
    reference: str
    title: str
    link: str
    state: str
    state_word: str
    glyph: str
    since: datetime | None
    waiting_for: str
    who: tuple[Who, ...]
    otherwise: str
    deadline: datetime | None

    @property
    def who_words(self) -> str:
        """Maya Lindgren (Approver) approves or rejects; nobody, where it is over."""
        return "; ".join(f"{one.who}: {one.does}" for one in self.who) or "Nobody: it ends here."


_explainers: dict[str, Explainer] = {}


def explainer_register(entity: str, explainer: Explainer) -> None:
    """Let `explainer` speak for entities of that kind."""
    _explainers[entity] = explainer


def entity_of(model: type[Model]) -> str:
    """The kind of a model's rows; empty where nobody explains them."""
    return next((entity for entity, one in _explainers.items() if one.model is model), "")


def explained_entities() -> tuple[str, ...]:
    """The kinds that can be explained."""
    return tuple(_explainers)


def explainers() -> Iterator[tuple[str, Explainer]]:
    """Every kind with its explainer."""
    yield from _explainers.items()


def explainer_of(entity: str) -> Explainer:
    """The explainer of a kind. Raises KeyError for one that nobody registered."""
    return _explainers[entity]


def identified(pk: uuid.UUID, viewer: User) -> Iterator[tuple[str, Any]]:
    """The rows of any kind with that id that the viewer sees: one query to know which, one for each."""
    asked = [
        explainer.rows(viewer)
        .order_by()
        .filter(pk=pk)
        .annotate(explained_as=Value(entity))
        .values_list("explained_as", flat=True)
        for entity, explainer in _explainers.items()
        if viewer.has_perm(explainer.right)
    ]
    if not asked:
        return
    first, *others = asked
    for entity in first.union(*others, all=True):
        row = _explainers[entity].rows(viewer).filter(pk=pk).first()
        if row is not None:
            yield entity, row


def explain(named: str, viewer: User) -> Explanation:
    """The explanation of what a reference, an id or a seller's short name names.

    Raises NotExplainedError: there is none, or the viewer may not see it, which look the same.
    """
    wanted = named.strip()[:80]
    found = next(_found(wanted, viewer), None)
    if found is None:
        raise NotExplainedError(f"There is no {wanted!r} among what you may see.")
    return explain_entity(*found, viewer)


def explain_row(entity: str, pk: uuid.UUID, viewer: User) -> Explanation:
    """The explanation of one row. Raises NotExplainedError, as `explain` does."""
    explainer = _explainers.get(entity)
    row = None
    if explainer is not None and viewer.has_perm(explainer.right):
        row = explainer.rows(viewer).filter(pk=pk).first()
    if row is None:
        raise NotExplainedError(f"There is no {entity} {pk} among what you may see.")
    return explain_entity(entity, row, viewer)


def explain_entity(entity: str, row: Any, viewer: User) -> Explanation:
    """The explanation of a row that the viewer was found to see. Raises KeyError for a kind nobody
    registered."""
    explainer = _explainers[entity]
    standing, answers = explainer.standing(row), explainer.answers(row)
    shown = face(standing.status)
    return Explanation(
        entity=entity,
        label=explainer.label,
        id=str(row.pk),
        reference=str(getattr(row, "reference", "")) if explainer.prefix else "",
        title=explainer.title(row),
        link=explainer.link(row),
        state=standing.status,
        state_word=standing.word or shown.word,
        glyph=standing.glyph or shown.glyph,
        since=standing.since,
        waiting_for=answers.waiting,
        who=_whos(answers.movers, standing.team_id, advertiser_of(entity, row.pk), viewer),
        otherwise=answers.otherwise,
        deadline=answers.deadline,
    )


def movers_words(movers: Sequence[Mover]) -> str:
    """Who can move it and how, for a notice or a page: by their roles, and by name where more than the right
    decides who can."""
    return "; ".join(f"{_for_anybody(mover)}: {mover.does}" for mover in movers)


def page_link(name: str) -> Callable[[Any], str]:
    """The address of a row's page in the admin, by the page's name (orders_deal)."""
    return lambda row: reverse(f"admin:{name}_change", args=[row.pk])


def stands(row: Any) -> Standing:
    """How an entity with a lifecycle and a team stands."""
    return Standing(status=row.status, since=row.status_since, team_id=row.team_id)


def _found(wanted: str, viewer: User) -> Iterator[tuple[str, Any]]:
    """The rows that a reference, an id or a short name names."""
    try:
        yield from identified(uuid.UUID(wanted), viewer)
    except ValueError:
        for entity, explainer in _explainers.items():
            lookup = _lookup(explainer, wanted)
            if lookup is not None and viewer.has_perm(explainer.right):
                yield from ((entity, row) for row in explainer.rows(viewer).filter(**lookup)[:1])


def _lookup(explainer: Explainer, wanted: str) -> dict[str, str] | None:
    """How the rows of this kind that `wanted` names are found; None: it can name none of them."""
    reference = _REFERENCE.fullmatch(wanted)
    if reference:
        fits = explainer.prefix and reference[1].upper() == explainer.prefix
        return {"reference": wanted.upper()} if fits else None
    return {explainer.by: wanted} if explainer.by and _SLUG.fullmatch(wanted) else None


def _whos(
    movers: Sequence[Mover], team_id: uuid.UUID | None, advertiser_id: uuid.UUID | None, viewer: User
) -> tuple[Who, ...]:
    # Of what is nobody's for certain, the viewer is told of their own teams' people.
    teams = [team_id] if team_id else teams_of(viewer)
    asked = {mover.right for mover in movers if mover.right and mover.people is None}
    holders = holders_of(asked, teams, advertiser_id)
    return tuple(_who(mover, holders.get(mover.right, {})) for mover in movers)


def _who(mover: Mover, holders: Mapping[uuid.UUID, Holder]) -> Who:
    if mover.who:
        return Who(who=mover.who, does=mover.does)
    names = [holder.name for holder in holders.values()] if mover.people is None else mover.people
    roles = list(mover.roles) or roles_with(mover.right)
    return Who(who=_named(names, roles), does=mover.does, people=tuple(names[:_NAMED]), roles=tuple(roles))


def _for_anybody(mover: Mover) -> str:
    if mover.people is None and not mover.who:
        return " or ".join(mover.roles or roles_with(mover.right))
    return _who(mover, {}).who


def _named(names: Sequence[str], roles: Sequence[str]) -> str:
    carried = " or ".join(roles)
    if not names:
        return f"Nobody at present; it takes the role {carried}"
    said = f"{', '.join(names[:_NAMED])} and others" if len(names) > _NAMED else joined(list(names))
    return f"{said} ({carried})"
