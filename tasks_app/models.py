"""One Django app, one migration history: the rooms' models, imported here."""

from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.policy_models import ApprovalEscalation, ApprovalPolicy, ExchangeRate
from tasks_app.approvals.records import (
    ApprovalNote,
    DecisionBatch,
    DecisionBatchItem,
    Delegation,
    LinkUse,
)
from tasks_app.assistant.models import (
    AssistantMode,
    AssistantProposal,
    AssistantSession,
    AssistantStep,
    AssistantToolCall,
    AssistantTurn,
)
from tasks_app.commands.models import Command, CommandDecision, KillSwitch, OutgoingMessage
from tasks_app.desk.saved import SavedFilter
from tasks_app.events.models import EventCount, EventDelivery, EventStream, EventSubscription
from tasks_app.field_keys import FieldKey
from tasks_app.jobs.clusters import WorkerCluster
from tasks_app.jobs.models import Edge, Job, Step, WorkflowEvent
from tasks_app.jobs.outside_event import EventWait, OutsideEvent
from tasks_app.jobs.schedule import Schedule, ScheduleEntry
from tasks_app.lifecycle.models import AuditEntry, Import, LifecycleEdge, LifecycleRule, OutboxEvent
from tasks_app.notifications.models import (
    Notification,
    NotificationMail,
    NotificationRead,
    TeamWebhook,
    TeamWebhookSent,
)
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Observation, Operation
from tasks_app.operations.pulse import SweepOutage, SweepPulse
from tasks_app.people.models import Actor, Advertiser, House, Membership, Team, User
from tasks_app.people.security_models import LoginSession, RecoveryCode, SecondFactor, SecurityEvent
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.sellers.models import Account, Seller, SellerBreaker, TrustChange
from tasks_app.troubles.models import RowTrouble
from tasks_app.webhooks.models import SellerKey, SellerRevocations, SenderTally, WebhookDelivery

__all__ = [
    "Account",
    "Actor",
    "Advertiser",
    "Approval",
    "ApprovalEscalation",
    "ApprovalNote",
    "ApprovalPolicy",
    "AssistantMode",
    "AssistantProposal",
    "AssistantSession",
    "AssistantStep",
    "AssistantToolCall",
    "AssistantTurn",
    "AuditEntry",
    "CallLease",
    "Command",
    "CommandDecision",
    "Conflict",
    "Continuation",
    "Decision",
    "DecisionBatch",
    "DecisionBatchItem",
    "Delegation",
    "Edge",
    "EventCount",
    "EventDelivery",
    "EventStream",
    "EventSubscription",
    "EventWait",
    "ExchangeRate",
    "FieldKey",
    "House",
    "Import",
    "Job",
    "KillSwitch",
    "LifecycleEdge",
    "LifecycleRule",
    "LinkUse",
    "LoginSession",
    "Membership",
    "Notification",
    "NotificationMail",
    "NotificationRead",
    "Observation",
    "Operation",
    "OutboxEvent",
    "OutgoingMessage",
    "OutsideEvent",
    "ReconciliationFinding",
    "ReconciliationRun",
    "RecoveryCode",
    "RowTrouble",
    "SavedFilter",
    "Schedule",
    "ScheduleEntry",
    "SecondFactor",
    "SecurityEvent",
    "Seller",
    "SellerBreaker",
    "SellerKey",
    "SellerRevocations",
    "SenderTally",
    "Step",
    "SweepOutage",
    "SweepPulse",
    "Team",
    "TeamWebhook",
    "TeamWebhookSent",
    "TrustChange",
    "User",
    "WebhookDelivery",
    "WorkerCluster",
    "WorkflowEvent",
]
