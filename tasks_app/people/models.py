"""People, service accounts, teams and the advertisers they buy for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models.functions import Upper

from tasks_app.alike import as_seen
from tasks_app.ids import new_id


class House(models.Model):
    """The organisation that buys. There is one row, or none before it was named.

    `domain` identifies it to sellers (AdCP's operator). `currency` and `time_zone` are the defaults of new
    briefs and people.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    name = models.CharField(max_length=120, help_text="Your organisation, as on its invoices")
    domain = models.CharField(
        max_length=253,
        help_text="Sellers identify you by it, such as example.com. It stays once you have added a seller.",
    )
    currency = models.CharField(max_length=3, default="USD")
    time_zone = models.CharField(max_length=64, default="UTC")

    class Meta:
        verbose_name_plural = "house"
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="one_house")]

    def __str__(self) -> str:
        return self.name


class Team(models.Model):
    """Owns campaigns, jobs, approvals; people see what their teams own."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=120, unique=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Advertiser(models.Model):
    """A client whose media is bought, with the brand domain sellers know it by."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # Where a row of this model finds its advertiser (people/scope.py).
    advertiser_path = "pk"

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="advertisers")
    name = models.CharField(max_length=160)
    brand_domain = models.CharField(max_length=253)
    # Regulatory regimes that apply to it, as AdCP names them (`policy_categories`): age_restricted, …
    policy_categories = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="advertiser_once_per_team")]
        # Found by the beginning of its name, in either case.
        indexes = [models.Index(OpClass(Upper("name"), name="text_pattern_ops"), name="advertiser_by_name")]

    def __str__(self) -> str:
        return self.name


if TYPE_CHECKING:
    _UserManager = UserManager["User"]
else:
    _UserManager = UserManager  # takes no parameter when it runs


class People(_UserManager):
    """Logins, found by their name as it is kept."""

    use_in_migrations = False

    def get_by_natural_key(self, username: str | None) -> User:
        """Raises User.DoesNotExist. One that was made before names were normalised is found by its own."""
        named = [User.normalize_username(username or ""), username]
        return next(iter(self.filter(username__in=named)[:1]), None) or self.get(username=username)


class User(AbstractUser):  # type: ignore[django-manager-missing]  # of knox, which is untyped
    """A login. What it did is recorded under its Actor, which outlives it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    teams = models.ManyToManyField(Team, related_name="users", blank=True, through="Membership")
    time_zone = models.CharField(max_length=64, default="UTC")
    mail_notifications = models.BooleanField(
        "e-mail notifications", default=False, help_text="Notifications come by e-mail too."
    )
    is_service = models.BooleanField(
        "service account", default=False, help_text="It uses the API with a token, and never decides."
    )

    objects: ClassVar[People] = People()
    _scope: Any = None  # people/scope.py reads it once for an instance
    _limited_to: frozenset[str] | None = None

    class Meta(AbstractUser.Meta):
        verbose_name, verbose_name_plural = "person", "people"

    def __str__(self) -> str:
        return self.get_full_name() or self.username

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.username = self.normalize_username(self.username)
        super().save(*args, **kwargs)

    def limit_rights(self, rights: Iterable[str]) -> None:
        """Let this instance do no more than read and use `rights`, as a limited API token says."""
        self._limited_to = frozenset(rights)

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        """Return whether the person holds a right, and the API token that is used, if any, includes it."""
        is_read = perm.partition(".")[2].startswith("view_")
        if self._limited_to is not None and not is_read and perm not in self._limited_to:
            return False
        return super().has_perm(perm, obj)

    @classmethod
    def normalize_username(cls, username: str) -> str:
        """A name as it is kept and looked up: in NFKC, without characters that nobody sees, so that no two
        logins look the same by them and none escapes its lock-out."""
        return as_seen(username)


class Membership(models.Model):
    """That somebody belongs to a team: to all of it, or to some of its advertisers alone (decision 0030)."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    every_advertiser = models.BooleanField(
        default=True, help_text="All advertisers of the team, also future ones; else those named alone."
    )
    advertisers = models.ManyToManyField(Advertiser, related_name="+", blank=True)

    class Meta:
        db_table = "tasks_app_user_teams"  # it began as the bare table of User.teams
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["user", "team"], name="member_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"


class Actor(models.Model):
    """Who did something: `human:<id>`, `agent:<id>` or `system`. Only the name may change or be erased."""

    class Kind(models.TextChoices):
        SYSTEM = "system"
        HUMAN = "human"
        AGENT = "agent"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    key = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    name = models.CharField(max_length=160)
    user = models.OneToOneField(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="actor")

    def __str__(self) -> str:
        return self.name
