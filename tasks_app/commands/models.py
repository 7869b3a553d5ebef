"""Every effect outside is a command: one row per idempotency key, and each decision about it."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.people.models import Advertiser, Team
from tasks_app.sellers.models import Seller


class Command(models.Model):
    """One effect outside, under one key: what was asked, by whom, and what came of it (document 003).

    Recorded, executed once; or waiting at a risk gate; or refused there. A command that waits is asked about
    by an approval of the kind `risk_gate`, one for each `gate_round`.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    key = models.CharField(max_length=160, unique=True)
    kind = models.CharField(max_length=40)
    adapter = models.CharField(max_length=20)
    payload = models.JSONField()
    digest = models.CharField(max_length=64)  # SHA-256 of RFC 8785 of {kind, payload}
    seller = models.ForeignKey(Seller, null=True, on_delete=models.PROTECT, related_name="+")
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT, related_name="+")
    advertiser = models.ForeignKey(
        Advertiser, null=True, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    # What it is for, in an upper storey: never a foreign key upward.
    subject_type = models.CharField(max_length=32, blank=True)
    subject_id = models.UUIDField(null=True)
    requested_by = models.CharField(max_length=80)
    at = models.DateTimeField(default=timezone.now)

    result = models.JSONField(default=dict)  # what the adapter made of it, such as {"operation": id}
    executed_at = models.DateTimeField(null=True)
    refused_at = models.DateTimeField(null=True)
    refused_why = models.TextField(blank=True)
    replays = models.PositiveIntegerField(default=0)  # how often the recorded result was answered again

    # At a gate: since when, whether all gates were asked (a repeated effect), whether whoever wants it asks
    # again by itself (a step), and when the gates were last asked.
    waiting_since = models.DateTimeField(null=True)
    repeated = models.BooleanField(default=False)
    awaited = models.BooleanField(default=False)
    asked_at = models.DateTimeField(null=True)
    gate_round = models.PositiveIntegerField(default=0)
    overrides = models.JSONField(default=list)  # gates that a person said to pass, for the next attempt

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["subject_type", "subject_id"], name="command_by_subject"),
            models.Index(fields=["advertiser", "-id"], name="command_by_advertiser"),
            models.Index(
                fields=["asked_at"],
                name="command_waiting",
                condition=models.Q(waiting_since__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.words} {self.digest[:8]}"

    @property
    def words(self) -> str:
        """What it does: Place order for order_place."""
        return " ".join(reversed(self.kind.split("_"))).capitalize()

    @property
    def operation_id(self) -> Any:
        """The operation that carries it out; None for what is no operation."""
        return self.result.get("operation")


class CommandDecision(models.Model):
    """One decision about a command, append-only, with the request, tenant and user it goes back to."""

    class Code(models.TextChoices):
        EXECUTED = "executed"
        WAITS = "waits_at_gate"
        OVERRIDDEN = "gate_overridden"  # a person said to go on
        REOPENED = "gate_open_again"
        REPEATED = "repeat_allowed"  # the same effect may be asked for once more
        REFUSED = "refused"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    command = models.ForeignKey(Command, on_delete=models.PROTECT, related_name="decisions")
    code = models.CharField(max_length=20, choices=Code.choices)
    gates = models.JSONField(default=dict)  # gate to why it is closed
    note = models.TextField(blank=True)
    trace_id = models.CharField(max_length=64, blank=True)
    request = models.CharField(max_length=64, blank=True)
    team = models.CharField(max_length=36, blank=True)
    user = models.CharField(max_length=80, blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.code


class KillSwitch(models.Model):
    """One turn of the kill switch, append-only: the latest of a team, and the latest for all, hold."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    team = models.ForeignKey(
        Team, null=True, blank=True, on_delete=models.PROTECT, related_name="+", help_text="Empty: all teams."
    )
    on = models.BooleanField("stops commands")
    reason = models.CharField(max_length=500)
    actor = models.CharField(max_length=80, editable=False)
    request = models.CharField(max_length=64, blank=True, editable=False)
    at = models.DateTimeField(default=timezone.now, editable=False)
    # Numbered by the database, so that the latest turn is the latest whatever the hosts' clocks say.
    turn = models.BigIntegerField(db_default=0, editable=False)

    class Meta:
        ordering = ["-turn"]
        verbose_name_plural = "kill switch"
        permissions = [("turn_kill_switch", "May stop commands, and let them go on")]
        indexes = [models.Index(fields=["team", "-turn"], name="kill_switch_latest")]

    def __str__(self) -> str:
        return f"{self.team or 'all teams'}: {'on' if self.on else 'off'}"


class OutgoingMessage(models.Model):
    """A message to somebody outside, as it was commanded; sent by the event bus, outside any transaction."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    command = models.OneToOneField(Command, on_delete=models.PROTECT, related_name="message")
    to = models.EmailField(max_length=254)
    subject = models.CharField(max_length=200)
    body = models.TextField()
    at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.subject
