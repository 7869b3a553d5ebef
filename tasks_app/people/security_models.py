"""Who signed in and how, and the record of it: sessions, second factors, the security log."""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.utils import timezone
from encrypted_fields.fields import EncryptedCharField
from knox.models import AbstractAuthToken

from tasks_app.ids import new_id
from tasks_app.people.models import User


class SecurityEvent(models.Model):
    """One entry of the security log, append-only: PostgreSQL refuses to change or remove one."""

    class Kind(models.TextChoices):
        LOGIN = "login", "Signed in"
        LOGIN_FAILED = "login_failed", "Sign-in refused"
        LOCKED_OUT = "locked_out", "Locked out"
        LOGOUT = "logout", "Signed out"
        FACTOR_ADDED = "factor_added", "Second factor set up"
        FACTOR_REMOVED = "factor_removed", "Second factor removed"
        FACTOR_FAILED = "factor_failed", "Second factor refused"
        RECOVERY_USED = "recovery_used", "Recovery code used"
        PASSWORD_LINK = "password_link", "Link to set a password made"
        PASSWORD_CHANGED = "password_changed", "Password changed"
        RIGHTS_CHANGED = "rights_changed", "Rights changed"
        HOUSE_CHANGED = "house_changed", "House changed"
        TEAM_CHANGED = "team_changed", "Team changed"
        ADVERTISER_CHANGED = "advertiser_changed", "Advertiser changed"
        SELLER_CHANGED = "seller_changed", "Seller changed"
        SELLER_ASKED = "seller_asked", "Change of a seller asked for"
        SELLER_REFUSED = "seller_refused", "Change of a seller not made"
        ACCOUNT_TOLD = "account_told", "Account changed by its seller"
        EXPORTED = "exported", "Exported"
        TOKEN_MADE = "token_made", "API token made"
        TOKEN_REVOKED = "token_revoked", "API token revoked"
        SESSIONS_ENDED = "sessions_ended", "Sessions ended"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField(default=timezone.now)
    event = models.CharField(max_length=24, choices=Kind.choices)
    actor = models.CharField(max_length=80, blank=True)  # empty: nobody who is known
    actor_name = models.CharField(max_length=160, blank=True)
    about = models.CharField(max_length=200, blank=True)
    address = models.GenericIPAddressField(null=True)
    request = models.CharField(max_length=64, blank=True)
    detail = models.JSONField(default=dict)
    # The transaction it was written in, in PostgreSQL's word: a change of rights has its entry in the same.
    born_in = models.CharField(max_length=48, blank=True, default="", editable=False)

    class Meta:
        ordering = ["-id"]
        default_permissions = ("view",)
        verbose_name_plural = "security log"
        indexes = [
            models.Index(fields=["actor", "-id"], name="security_by_actor"),
            models.Index(fields=["event", "-id"], name="security_by_event"),
            models.Index(fields=["at"], name="security_by_time"),
        ]

    def __str__(self) -> str:
        return self.get_event_display()


class ApiToken(AbstractAuthToken):
    """An API token of a person or service account. Its digest alone is kept.

    `rights`: what it may do besides reading; None: everything that its owner may do.
    """

    name = models.CharField(max_length=60, blank=True)
    rights = models.JSONField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.name or f"{self.token_key}…"


class LoginSession(AbstractBaseSession):
    """A browser's session. `session_key` holds the SHA-256 of the cookie's value: who reads this table can
    take over nobody's session."""

    session_key = models.CharField(max_length=64, primary_key=True)
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="sessions")
    address = models.GenericIPAddressField(null=True)
    agent = models.CharField(max_length=200, blank=True)
    signed_in_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()

    @classmethod
    def get_session_store_class(cls) -> Any:
        from tasks_app.people.sessions import SessionStore  # which has this model

        return SessionStore


class SecondFactor(models.Model):
    """A person's authenticator app: RFC 6238, SHA-1, six digits, 30 seconds, as all apps have it."""

    user = models.OneToOneField(
        User, primary_key=True, on_delete=models.CASCADE, related_name="second_factor"
    )
    secret = EncryptedCharField(max_length=64, editable=False)  # base32
    # Digest of the key of the session that was shown the QR code: no other one may confirm it.
    begun_in = models.CharField(max_length=64, editable=False)
    confirmed_at = models.DateTimeField(null=True)  # null: shown as a QR code, no code seen yet
    last_step = models.BigIntegerField(default=0)  # of the latest code: none is taken twice
    failures = models.PositiveIntegerField(default=0)
    locked_until = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"Authenticator app of {self.user}"


class RecoveryCode(models.Model):
    """One of the codes that stand in for a lost app, once. Its digest alone is kept."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)  # SHA-256 (hex) of 80 random bits and whose they are
    used_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="recovery_code_once")]

    def __str__(self) -> str:
        return f"Recovery code of {self.user}"
