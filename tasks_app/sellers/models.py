"""Sellers' agents and the accounts advertisers hold with them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models.fields.json import KeyTransform
from django.utils import timezone
from encrypted_fields.fields import EncryptedCharField, EncryptedFieldMixin, EncryptedTextField

from tasks_app.adcp.signatures.origins import key_origin, same_origin
from tasks_app.adcp.tasks import LIST_TOOL_NAMES, is_status_tool, task_status_tool, tool_offered
from tasks_app.adcp.types import Endpoint
from tasks_app.ids import new_id
from tasks_app.people.models import Advertiser
from tasks_app.sellers.headers import HEADERS_LOST, headers_opened, headers_valid
from tasks_app.sellers.hours import hours_valid

_HORIZON_S = (24 * 3600, 7 * 24 * 3600)
SELLER_HEAVY = ("seller__capabilities", "seller__tools")  # of rows that only name their seller
KEYS_ELSEWHERE = "The seller declares its keys at another origin than where they are read."
LONGEST_HORIZON = timedelta(seconds=_HORIZON_S[1])


class Seller(models.Model):
    """One seller's agent: address, protocol, credentials, and what it said it can do."""

    class Protocol(models.TextChoices):
        MCP = "mcp", "MCP"
        A2A = "a2a", "A2A"

    class WebhookMode(models.TextChoices):
        RFC9421 = "rfc9421", "signed, RFC 9421"
        HMAC = "hmac", "HMAC-SHA256 (legacy)"
        HMAC_BODY = "hmac_body", "HMAC-SHA256 over the body alone (before AdCP 3)"
        BEARER = "bearer", "bearer credentials (legacy)"
        NONE = "none", "none, polling only"

    class AuthScheme(models.TextChoices):
        BEARER = "bearer", "Bearer token"
        BASIC = "basic", "Basic: name and password"

    class AccountInReads(models.TextChoices):
        AUTO = "auto", "as the seller takes it"
        ALWAYS = "always", "always named"
        NEVER = "never", "never named"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    url = models.URLField(max_length=500)
    protocol = models.CharField(max_length=4, choices=Protocol.choices)
    token = EncryptedCharField(max_length=500, null=True, blank=True, editable=False)
    auth_scheme = models.CharField(max_length=6, choices=AuthScheme.choices, default=AuthScheme.BEARER)
    # Of its own, sent with every request: {name: value}; the secret ones as JSON (sellers/headers.py).
    headers = models.JSONField(default=dict, blank=True, validators=[headers_valid])
    secret_headers = EncryptedTextField(null=True, blank=True, editable=False)
    webhook_mode = models.CharField(max_length=12, choices=WebhookMode.choices, default=WebhookMode.NONE)
    webhook_secret = EncryptedCharField(max_length=200, null=True, blank=True, editable=False)
    # While a secret is being rotated: what purchases asked for before were told to sign with.
    webhook_secret_previous = EncryptedCharField(max_length=200, null=True, blank=True, editable=False)
    webhook_secret_previous_until = models.DateTimeField(null=True, editable=False)
    jwks_url = models.URLField(max_length=500, blank=True)
    allow_private = models.BooleanField(default=False, help_text="May live on a private address.")
    status_tool = models.CharField(
        max_length=80,
        blank=True,
        validators=[RegexValidator(r"^[A-Za-z0-9_./-]+$", "A tool’s name.")],
        help_text="Its own name for the tool that tells of a task",
    )
    account_in_reads = models.CharField(
        max_length=6,
        choices=AccountInReads.choices,
        default=AccountInReads.AUTO,
        help_text="Whether reads of media buys and tasks name the account",
    )
    slots = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1)], help_text="Calls out at the same time."
    )
    active = models.BooleanField(default=True, help_text="Not asked and not booked with while off.")
    capabilities = models.JSONField(default=dict, editable=False)
    capabilities_at = models.DateTimeField(null=True, editable=False)
    # Null: when it was last asked decides (operations/seller_reads.py).
    capabilities_next_at = models.DateTimeField(null=True, editable=False)
    adcp_version = models.CharField(max_length=20, blank=True, editable=False)
    tools = models.JSONField(default=list, editable=False)
    idempotency_ttl_s = models.PositiveIntegerField(null=True, editable=False)
    # Why it refused our credentials when it was last asked; empty if it took them.
    read_refusal = models.CharField(max_length=200, blank=True, editable=False)
    # Who accepted sending purchases to a seller that declares no idempotency: without
    # that none are sent (AdCP L1/security "Idempotency").
    idempotency_risk_accepted_by = models.CharField(max_length=80, blank=True, editable=False)
    idempotency_risk_accepted_at = models.DateTimeField(null=True, editable=False)
    quirks = models.JSONField(default=list, blank=True)
    # Numbers changed for this seller alone, by name; the rest are the documents' (sellers/timing.py).
    timing = models.JSONField(default=dict, blank=True)
    # For people: whom to write to, and when somebody is there (sellers/hours.py).
    contact_email = models.EmailField(blank=True)
    business_hours = models.JSONField(default=dict, blank=True, validators=[hours_valid])
    # Webhook health (operations/webhook_health.py). Until then it is polled as if it had none; past: its
    # webhooks are on trial; null: trusted. What settled before `webhook_judged_since` counts no more.
    webhook_paused_until = models.DateTimeField(null=True, editable=False)
    webhook_judged_since = models.DateTimeField(null=True, editable=False)
    webhook_checked_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]
        permissions = [("accept_seller_risk", "Can accept that a repeated order may be booked twice")]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Raises ValidationError."""
        super().clean()
        if self.auth_scheme == self.AuthScheme.BASIC and self.token and ":" not in self.token:
            raise ValidationError({"token": "Basic credentials are name:password."})
        # Every poll calls it with a task's id.
        if self.status_tool and not is_status_tool(self.status_tool) and not self._has_status_tool():
            raise ValidationError({"status_tool": "By its name this is no tool that only tells of a task."})
        if self.keys_elsewhere and not self._has_keys_there():
            raise ValidationError({"jwks_url": KEYS_ELSEWHERE})

    def _has_status_tool(self) -> bool:
        """Whether it is stored with that status tool: what was kept before bars no other change."""
        return Seller.objects.filter(pk=self.pk, status_tool=self.status_tool).exists()

    def _has_keys_there(self) -> bool:
        """Whether it is stored with its keys there: it may have declared others since."""
        kept = Seller.objects.filter(pk=self.pk, jwks_url=self.jwks_url, webhook_mode=self.webhook_mode)
        return kept.exists()

    @property
    def keys_elsewhere(self) -> bool:
        """Whether the keys that prove its webhooks are read at another origin than it declares for them: then
        they prove nothing (AdCP L1/security, "Discovering an agent's signing keys")."""
        declared = key_origin(self.capabilities)
        signs = self.webhook_mode == self.WebhookMode.RFC9421 and bool(self.jwks_url)
        return signs and declared is not None and not same_origin(self.jwks_url, declared)

    @property
    def uses_webhooks(self) -> bool:
        return self.webhook_mode != self.WebhookMode.NONE

    def webhooks_trusted(self, now: datetime) -> bool:
        """Whether a webhook may be waited for; while paused they are asked for and taken all the same."""
        return self.uses_webhooks and (self.webhook_paused_until is None or self.webhook_paused_until <= now)

    @property
    def shares_webhook_secret(self) -> bool:
        """Whether its webhooks are proven by a secret that we gave it."""
        return self.webhook_mode in _SHARED

    def webhook_secrets(self, now: datetime) -> list[str]:
        """The secrets it may prove itself with at `now`: the present one, and the one before while it
        lasts."""
        until = self.webhook_secret_previous_until
        previous = self.webhook_secret_previous if until is not None and now < until else None
        return [secret for secret in (self.webhook_secret, previous) if secret]

    @property
    def known_secrets(self) -> list[str]:
        """All that it may repeat to us and nobody may store: webhook secrets, outdated ones too, its token
        and the values of its secret headers."""
        kept = (self.webhook_secret, self.webhook_secret_previous)
        return [*(s for s in kept if s), *self.endpoint(timeout_s=0).secrets]

    @property
    def brand_json_url(self) -> str:
        """The operator's brand.json, as the seller names it; empty where it names none."""
        identity = self.capabilities.get("identity")
        url = identity.get("brand_json_url") if isinstance(identity, dict) else None
        return url if isinstance(url, str) and url.startswith("https://") else ""

    @property
    def delivery_horizon(self) -> timedelta:
        """How long a webhook's key stays bound to its payload, from its first delivery: the retry window that
        the seller declares, within 24 hours and 7 days (AdCP L3/async-identity-and-convergence)."""
        signing = self.capabilities.get("webhook_signing")
        told = signing.get("delivery_retry_horizon_seconds") if isinstance(signing, dict) else None
        seconds = told if isinstance(told, int) and not isinstance(told, bool) else 0
        return timedelta(seconds=min(max(seconds, _HORIZON_S[0]), _HORIZON_S[1]))

    @property
    def may_be_sent_mutations(self) -> bool:
        """Whether a repeated purchase is known, or accepted, to be harmless."""
        return self.idempotency_ttl_s is not None or bool(self.idempotency_risk_accepted_by)

    def shut(self, *, mutates: bool, though_off: bool = False) -> str:
        """Why nothing is sent to it, in words; empty where it is. `mutates`: what changes something there;
        `though_off`: a person said so."""
        if not self.active and not though_off:
            return f"{self.name} is switched off"
        if mutates and not self.may_be_sent_mutations:
            return f"{self.name} declares no idempotency: an administrator must accept the risk first"
        return ""

    @staticmethod
    def are_shut(seller: str, *, mutates: models.Q, though_off: models.Q) -> models.Q:
        """The same in a query whose rows name their seller by `seller`."""
        no_window = {f"{seller}__idempotency_ttl_s": None, f"{seller}__idempotency_risk_accepted_by": ""}
        off = models.Q(**{f"{seller}__active": False}) & ~though_off
        return off | (mutates & models.Q(**no_window))

    @property
    def task_tool(self) -> str | None:
        """The tool that tells of one task: its own name, else the one it lists; None where it lists tools and
        none of these."""
        return self.status_tool or task_status_tool(self.tools)

    def offers(self, tool: str) -> bool:
        """Whether it may be asked with this tool; so too where it is not known what it has."""
        return tool == self.status_tool or tool_offered(self.tools, tool)

    def omits_account(self, tool: str) -> bool:
        """Whether a read with this tool leaves without the account that it is about: people said so, or the
        seller refused it."""
        names = LIST_TOOL_NAMES if tool in LIST_TOOL_NAMES else (tool,)
        learnt = any(f"omit {name} account" in self.quirks for name in names)
        asked = _READS_ACCOUNT.get(self.account_in_reads)
        return learnt if asked is None else not asked

    def lacks(self, tool: str) -> str:
        """Why it is not asked with this tool, in words; empty where it may be."""
        return "" if self.offers(tool) else f"{self.name} lists no tool {tool}, so it is not asked"

    def endpoint(self, *, timeout_s: float) -> Endpoint:
        """How to reach the agent, for `tasks_app.adcp`."""
        secret_headers = headers_opened(self.secret_headers)
        return Endpoint(
            url=self.url,
            protocol=self.protocol,  # type: ignore[arg-type]
            token=self.token,
            basic=self.auth_scheme == self.AuthScheme.BASIC,
            headers=self.headers,
            secret_headers=secret_headers or {},
            unusable=HEADERS_LOST if secret_headers is None else "",
            status_tool=self.status_tool or None,
            reads_account=_READS_ACCOUNT.get(self.account_in_reads),
            allow_private=self.allow_private,
            timeout_s=timeout_s,
            adcp_version=self.adcp_version or None,
            quirks=frozenset(self.quirks),
        )


# Encrypted: left out wherever a seller is read and nothing is sent to it.
SECRET_COLUMNS = tuple(
    field.name for field in Seller._meta.concrete_fields if isinstance(field, EncryptedFieldMixin)
)
# What nobody needs who only asks whether a seller is called now.
SELLER_ASIDE = (*SECRET_COLUMNS, "capabilities")
_READS_ACCOUNT: dict[str, bool] = {Seller.AccountInReads.ALWAYS: True, Seller.AccountInReads.NEVER: False}
_SHARED = (Seller.WebhookMode.HMAC, Seller.WebhookMode.HMAC_BODY, Seller.WebhookMode.BEARER)


class SellerBreaker(models.Model):
    """Whether a seller is left alone for a while, shared by all processes; no row: it never failed.

    The library pybreaker decides, this is its storage.
    """

    class State(models.TextChoices):
        CLOSED = "closed"  # it is called
        OPEN = "open"  # it failed too often in a row: left alone
        HALF_OPEN = "half-open"  # one call probes whether it is back

    seller = models.OneToOneField(Seller, primary_key=True, on_delete=models.CASCADE, related_name="breaker")
    state = models.CharField(max_length=10, choices=State.choices, default=State.CLOSED)
    since = models.DateTimeField(default=timezone.now)  # of the state
    failures = models.PositiveIntegerField(default=0)  # in a row
    successes = models.PositiveIntegerField(default=0)  # of probes, in a row
    reason = models.CharField(max_length=500, blank=True)  # what the last failure was
    opened_at = models.DateTimeField(null=True)
    probe_at = models.DateTimeField(null=True)  # the next probe, while open or half-open

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state="closed") | models.Q(probe_at__isnull=False),
                name="breaker_is_probed",
            )
        ]

    def __str__(self) -> str:
        return f"{self.seller}: {self.state}"


class Account(models.Model):
    """An advertiser's account with a seller; booking needs an active one."""

    class Status(models.TextChoices):
        """AdCP enums/account-status."""

        ACTIVE = "active", "Active"
        PENDING = "pending_approval", "Pending"
        PAYMENT_REQUIRED = "payment_required", "Payment required"
        SUSPENDED = "suspended", "Suspended"
        REJECTED = "rejected", "Rejected"
        CLOSED = "closed", "Closed"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    advertiser = models.ForeignKey(Advertiser, on_delete=models.PROTECT, related_name="accounts")
    seller = models.ForeignKey(Seller, on_delete=models.PROTECT, related_name="accounts")
    # AdCP's account reference: {"account_id": …} or {"brand": {"domain": …}, "operator": …}.
    reference = models.JSONField()
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.PENDING)
    billing_party = models.CharField(max_length=120, blank=True)
    payment_terms = models.CharField(max_length=40, blank=True)
    setup_url = models.URLField(max_length=500, blank=True)
    # The seller's words: {"message", "expires_at", "currency" (which the account is bound to),
    # "errors": [{"code", "message", "field", "suggestion"}]}.
    said = models.JSONField(default=dict, editable=False)
    # An id that the seller handed out and then refused; `reference` is then brand and operator.
    refused_reference = models.JSONField(null=True, editable=False)
    # Who here suspended or closed it: it stays so, whatever its seller says, until people let it go.
    switched_off_by = models.CharField(max_length=80, blank=True, editable=False)
    requested_by = models.CharField(max_length=80, blank=True, editable=False)
    status_since = models.DateTimeField(default=timezone.now, editable=False)
    # When people last said something of it: what its seller was asked before does not write over that.
    people_said_at = models.DateTimeField(null=True, editable=False)
    # When its seller was asked for what it answered last: what it was asked before does not write over that.
    asked_at = models.DateTimeField(null=True, editable=False)
    read_at = models.DateTimeField(null=True, editable=False)  # when the seller last spoke of it
    next_read_at = models.DateTimeField(null=True, editable=False)  # while its state is awaited
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["advertiser", "seller"], name="account_once_per_seller")
        ]
        indexes = [
            # Found by the seller's id for it.
            models.Index(KeyTransform("account_id", "reference"), name="account_by_seller_id"),
            models.Index(
                fields=["next_read_at"],
                name="account_to_read",
                condition=models.Q(next_read_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.reference.get("account_id") or f"{self.advertiser} with {self.seller}")


class TrustChange(models.Model):
    """A change of what decides whom we believe, that waits for a second person or had their word.

    `before` and `after` are {field: as shown}, secrets by their fingerprints; `values` is what will be
    written, JSON. Ended ones keep no values.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    seller = models.ForeignKey(Seller, on_delete=models.PROTECT, related_name="trust_changes")
    account = models.ForeignKey(Account, null=True, on_delete=models.PROTECT, related_name="trust_changes")
    asked_by = models.CharField(max_length=80)
    asked_at = models.DateTimeField(default=timezone.now)
    reason = models.CharField(max_length=500, blank=True)
    before = models.JSONField()
    after = models.JSONField()
    values = EncryptedTextField(null=True, editable=False)
    round = models.PositiveIntegerField(default=1)  # how often it was asked: `before` had changed
    applied_at = models.DateTimeField(null=True)
    refused_at = models.DateTimeField(null=True)
    ended_by = models.CharField(max_length=80, blank=True)

    class Meta:
        default_permissions = ()
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["seller", "account"],
                condition=models.Q(applied_at__isnull=True, refused_at__isnull=True),
                nulls_distinct=False,
                name="one_trust_change_waits",
            ),
            models.CheckConstraint(
                condition=models.Q(applied_at__isnull=True) | models.Q(refused_at__isnull=True),
                name="trust_change_ends_once",
            ),
        ]

    def __str__(self) -> str:
        return f"Change of {self.account or self.seller}"
