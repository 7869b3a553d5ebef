"""Sessions and turns of the assistant, and what a turn did, as rows."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone
from django_fsm import transition

from tasks_app.assistant.types import Channel, Mode, ModelRole, TaskState
from tasks_app.ids import new_id
from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.status_field import StatusField
from tasks_app.people.models import User
from tasks_app.people.roles import USE_ASSISTANT, VIEW_TURNS
from tasks_app.people.scope import scope_of

#: Who moves turns: Flightdeck's own agent, without a login.
ASSISTANT = "agent:assistant"
S = TaskState
_RUNNING = [S.INIT, S.PLANNING, S.LLM_CALL, S.TOOL_EXECUTION, S.SYNTHESIS]


def _choices(names: type[TaskState | Mode | Channel | ModelRole]) -> list[tuple[str, str]]:
    return [(name.value, name.value.replace("_", " ")) for name in names]


class AssistantSession(models.Model):
    """A conversation of one person.

    `messages` holds what was asked and replied, in OpenAI's chat format. What tools returned stays with the
    turns: it is old by the next question.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    title = models.CharField(max_length=120, blank=True)  # how the first question begins
    channel = models.CharField(max_length=10, choices=_choices(Channel))
    preferences = models.JSONField(default=dict)
    messages = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_active_at = models.DateTimeField(default=timezone.now)
    archived_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-last_active_at"]
        default_permissions = ()
        indexes = [
            models.Index(fields=["user", "-last_active_at"], name="assistant_session_by_user"),
            models.Index(
                fields=["last_active_at"],
                name="assistant_session_active",
                condition=models.Q(archived_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.title or "New conversation"


class AssistantTurn(Stateful):
    """One question and the work on its answer.

    `messages` are this turn's own: the question, tool calls, tool results, the reply. `lease_until` says how
    long `lease_holder`, one run in one process, may work on it without renewing. `partial` is the part of
    the reply that a model has written so far; nothing depends on it.
    """

    entity = "assistant_turn"

    status = StatusField(default=S.INIT, choices=_choices(S), protected=True, editable=False)
    session = models.ForeignKey(AssistantSession, on_delete=models.PROTECT, related_name="turns")
    number = models.PositiveIntegerField()
    question = models.TextField()
    opened = models.JSONField(null=True)  # the object on the page: kind, id
    teams = models.JSONField(default=list)  # ids of all teams whose data it may state; none for a superuser
    messages = models.JSONField(default=list)
    plan = models.TextField(blank=True)
    partial = models.TextField(blank=True)
    reply = models.TextField(blank=True)
    error = models.TextField(blank=True)
    trace_id = models.CharField(max_length=64)
    lease_holder = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        default_permissions = ("view",)
        permissions = [
            ("use_assistant", "May talk to the assistant"),
            ("govern_assistant", "May set the assistant's mode"),
        ]
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="assistant_turn_numbered")]
        indexes = [
            models.Index(fields=["id"], name="assistant_turn_open", condition=models.Q(ended_at__isnull=True))
        ]

    def __str__(self) -> str:
        return self.question[:80]

    @classmethod
    def rows_visible(cls, viewer: User) -> models.QuerySet[AssistantTurn]:
        """Return the turns that a viewer may see: their own, and with the right to view turns other people's.

        A turn shows what its asker saw. The viewer must therefore see all teams of the asker whole.
        """
        if viewer.is_superuser:
            return cls.objects.all()
        found = models.Q(session__user=viewer)
        if viewer.has_perm(VIEW_TURNS):
            whole = [str(team) for team in scope_of(viewer).whole]
            found |= models.Q(teams__contained_by=whole) & ~models.Q(teams=[])
        return cls.objects.filter(found)

    @transition(field=status, source=S.INIT, target=S.PLANNING)
    def begin_planning(self) -> None:
        """The question needs a plan."""

    @transition(field=status, source=[S.INIT, S.PLANNING, S.TOOL_EXECUTION], target=S.LLM_CALL)
    def call_model(self) -> None:
        """The model is asked next."""

    @transition(field=status, source=S.LLM_CALL, target=S.TOOL_EXECUTION)
    def run_tools(self) -> None:
        """The model asked for tools."""

    @transition(field=status, source=S.LLM_CALL, target=S.SYNTHESIS)
    def synthesize(self) -> None:
        """The model answered."""

    @transition(field=status, source=S.SYNTHESIS, target=S.COMPLETED)
    def complete(self) -> None:
        """The reply is final."""

    @transition(field=status, source=_RUNNING, target=S.FAILED)
    def fail(self) -> None:
        """There will be no reply; `error` says why."""

    @transition(field=status, source=_RUNNING, target=S.CANCELLED, permission=USE_ASSISTANT)
    def cancel(self) -> None:
        """A person stopped it."""


class AssistantStep(models.Model):
    """One step that a turn took: what it did, for how long, with which model. Append-only.

    `stale` marks a step that ended after the turn was stopped or taken over; it changed nothing.
    """

    id = models.BigAutoField(primary_key=True)
    turn = models.ForeignKey(AssistantTurn, on_delete=models.PROTECT, related_name="steps")
    state = models.CharField(max_length=20, choices=_choices(S))
    span_id = models.CharField(max_length=16)
    model_role = models.CharField(max_length=10, blank=True, choices=_choices(ModelRole))
    model = models.CharField(max_length=120, blank=True)
    duration_ms = models.PositiveIntegerField()
    tokens_used = models.PositiveIntegerField(default=0)
    stale = models.BooleanField(default=False)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.state


class AssistantToolCall(models.Model):
    """A tool that a model asked for: stored before it runs, and once more with its result or its error.

    After a crash, only calls without `ended_at` run again.
    """

    id = models.BigAutoField(primary_key=True)
    turn = models.ForeignKey(AssistantTurn, on_delete=models.PROTECT, related_name="tool_calls")
    call_id = models.CharField(max_length=120)
    tool = models.CharField(max_length=60)
    arguments = models.JSONField()
    result = models.JSONField(null=True)
    error = models.TextField(blank=True)
    refused = models.BooleanField(default=False)  # by governance: rights, mode, rate
    duration_ms = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["turn", "call_id"], name="assistant_call_once")]

    def __str__(self) -> str:
        return self.tool


class AssistantProposal(models.Model):
    """A change that the assistant proposes. It has no effect until its user confirms it.

    `arguments` are the tool's. The subject is the object that the proposal is about; once it is confirmed,
    the object that was created. `approvals` are the ids of the approvals that the confirmed change waits for.
    `remaining` are the arguments of a second change, which is asked for when the first one is shown.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    turn = models.ForeignKey(AssistantTurn, on_delete=models.PROTECT, related_name="proposals")
    call = models.OneToOneField(AssistantToolCall, on_delete=models.PROTECT, related_name="proposal")
    tool = models.CharField(max_length=60)
    arguments = models.JSONField()
    summary = models.TextField()
    subject_type = models.CharField(max_length=32)
    subject_id = models.UUIDField(null=True)
    approvals = models.JSONField(default=list)
    remaining = models.JSONField(null=True)
    error = models.TextField(blank=True)  # why a confirmed change was not asked for
    at = models.DateTimeField(default=timezone.now)
    confirmed_at = models.DateTimeField(null=True)
    dismissed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        default_permissions = ()
        indexes = [
            models.Index(
                fields=["id"],
                name="assistant_proposal_remaining",
                condition=models.Q(remaining__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return self.summary[:80]


class AssistantMode(models.Model):
    """A setting of the mode, for all sessions or for one. The newest row of each counts. Append-only."""

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(AssistantSession, null=True, on_delete=models.PROTECT, related_name="modes")
    mode = models.CharField(max_length=10, choices=_choices(Mode))
    reason = models.TextField()
    set_by = models.CharField(max_length=80)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-id"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.mode
