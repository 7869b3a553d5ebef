"""Saved filters: a list's present query under a name, for oneself or for a team."""

from __future__ import annotations

import uuid
from urllib.parse import parse_qsl

from django.db import IntegrityError, models, transaction
from django.db.models import Case, Q, When
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.people.models import Team, User
from tasks_app.people.scope import teams_of

_NAME, _QUERY = 60, 1000
MOST = 30  # of one person on one list


class SavedFilterRefusedError(ValueError):
    """It cannot be saved so; the words say why. Nothing was changed."""


class SavedFilter(models.Model):
    """One person's filter of one list (`page`: its model, such as orders.deal). Others see it where it is
    shared with a team of theirs; only its owner changes it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_filters")
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="+")
    page = models.CharField(max_length=60)
    name = models.CharField(max_length=_NAME)
    query = models.CharField(max_length=_QUERY)  # as in the list's address, without the question mark
    is_default = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name", "id"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["owner", "page", "name"], name="saved_filter_name_once"),
            models.UniqueConstraint(
                fields=["owner", "page"], condition=Q(is_default=True), name="saved_filter_one_default"
            ),
        ]
        indexes = [
            models.Index(fields=["team", "page"], name="saved_filter_shared", condition=Q(team__isnull=False))
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query's keys and values, sorted: how two queries are compared."""
        return query_pairs(self.query)


def query_pairs(query: str) -> list[tuple[str, str]]:
    """The keys and values of an address's query, sorted; empty values do not count."""
    return sorted(parse_qsl(query))


def saved_filters_of(viewer: User, page: str) -> list[SavedFilter]:
    """The viewer's own on one list, and of those shared with their teams as many as a page shows; by name."""
    rows = SavedFilter.objects.filter(Q(owner=viewer) | Q(team__in=teams_of(viewer)), page=page)
    own_first = rows.order_by(Case(When(owner=viewer, then=0), default=1), "name", "id")
    found = own_first.select_related("owner", "team")[: 4 * MOST]
    return sorted(found, key=lambda one: (one.name, one.id))


def saved_filter_save(
    *, user: User, page: str, name: str, query: str, team: Team | None = None, default: bool = False
) -> SavedFilter:
    """Keep a query of a list, whose keys the caller has checked, under a name; the same name again replaces
    the person's own. Raises SavedFilterRefusedError."""
    called = _name(name)
    if not query_pairs(query):
        raise SavedFilterRefusedError("Nothing is filtered: there is nothing to save.")
    if len(query) > _QUERY:
        raise SavedFilterRefusedError("This filter is too long to be saved.")
    with transaction.atomic():
        owned = _owned(user).filter(page=page)
        if owned.exclude(name=called).count() >= MOST:
            raise SavedFilterRefusedError(f"You have {MOST} filters on this list already: delete one.")
        if default:
            owned.update(is_default=False)
        kept, _ = SavedFilter.objects.update_or_create(
            owner=user,
            page=page,
            name=called,
            defaults={"query": query, "team": _shared_with(user, team), "is_default": default},
        )
    return kept


def saved_filter_held(*, user: User, filter_id: uuid.UUID) -> SavedFilter:
    """One's own filter, as it stays until the transaction ends. Raises SavedFilterRefusedError."""
    kept = _owned(user).filter(pk=filter_id).first()
    if kept is None:
        raise SavedFilterRefusedError("There is no such filter of yours.")
    return kept


def saved_filter_change(
    *, user: User, filter_id: uuid.UUID, name: str, team: Team | None, default: bool
) -> SavedFilter:
    """Rename one's own filter, share it with a team or with nobody, open the list with it or not. Raises
    SavedFilterRefusedError, also for somebody else's."""
    called = _name(name)
    try:
        with transaction.atomic():
            kept = saved_filter_held(user=user, filter_id=filter_id)
            if default:
                _owned(user).filter(page=kept.page).exclude(pk=kept.pk).update(is_default=False)
            kept.name, kept.team, kept.is_default = called, _shared_with(user, team), default
            kept.save(update_fields=["name", "team", "is_default"])
    except IntegrityError:
        raise SavedFilterRefusedError(f"You have a filter called {called} already.") from None
    return kept


def saved_filter_delete(*, user: User, filter_id: uuid.UUID) -> SavedFilter:
    """Delete one's own filter; answers what it was. Raises SavedFilterRefusedError."""
    with transaction.atomic():
        kept = saved_filter_held(user=user, filter_id=filter_id)
        SavedFilter.objects.filter(pk=kept.pk).delete()
    return kept


def _owned(user: User) -> models.QuerySet[SavedFilter]:
    # Whoever saves holds their own row, so that two at once neither exceed the limit nor share the default.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    return SavedFilter.objects.filter(owner=user)


def _name(name: str) -> str:
    called = " ".join(name.split())
    if not 1 <= len(called) <= _NAME or not called.isprintable():
        raise SavedFilterRefusedError(f"Give it a name of at most {_NAME} characters.")
    return called


def _shared_with(user: User, team: Team | None) -> Team | None:
    if team is not None and not teams_of(user).filter(pk=team.pk).exists():
        raise SavedFilterRefusedError("You share with teams of your own.")
    return team
