"""Roles as Django groups: which rights each holds. One table, read by the migration and by tests."""

from __future__ import annotations

from django.contrib.auth.models import Group, Permission

_READ = (
    "campaigns.view_campaign",
    "campaigns.view_allocation",
    "orders.view_deal",
    "orders.view_dealline",
    "tasks_app.view_operation",
    "tasks_app.view_observation",
    "tasks_app.view_job",
    "tasks_app.view_step",
    "tasks_app.view_schedule",
    "tasks_app.view_outsideevent",
    "tasks_app.view_approval",
    "tasks_app.view_decision",
    "tasks_app.view_seller",
    "tasks_app.view_account",
    "tasks_app.view_auditentry",
    "tasks_app.view_approvalpolicy",
    "tasks_app.view_exchangerate",
)
_TROUBLES = "tasks_app.view_rowtrouble"
_RECONCILIATION = ("tasks_app.view_reconciliationrun", "tasks_app.view_reconciliationfinding")
SUBMIT_CAMPAIGN = "campaigns.submit_campaign"
DECIDE = "tasks_app.decide_approval"
SEND_OPERATION = "tasks_app.send_operation"
STEER_OPERATION = "tasks_app.steer_operation"
STEER_JOB = "tasks_app.steer_job"
SCHEDULE_JOB = "tasks_app.schedule_job"
DELIVER_EVENT = "tasks_app.deliver_event"
CANCEL_DEAL = "orders.cancel_deal"
ADD_SELLER = "tasks_app.add_seller"
CHANGE_SELLER = "tasks_app.change_seller"
ACCEPT_RISK = "tasks_app.accept_seller_risk"
TURN_KILL_SWITCH = "tasks_app.turn_kill_switch"
MANAGE_POLICIES = "tasks_app.manage_policies"
ADMINISTRATOR = "Administrator"
VIEW_SECURITY_LOG = "tasks_app.view_securityevent"
USE_ASSISTANT = "tasks_app.use_assistant"
GOVERN_ASSISTANT = "tasks_app.govern_assistant"
VIEW_TURNS = "tasks_app.view_assistantturn"
_PEOPLE = (
    "tasks_app.view_house",
    "tasks_app.view_user",
    "tasks_app.view_team",
    "tasks_app.view_advertiser",
    "auth.view_group",
)
_COMMANDS = ("tasks_app.view_command", "tasks_app.view_killswitch")

ROLES: dict[str, tuple[str, ...]] = {
    "Buyer": (*_READ, SUBMIT_CAMPAIGN, CANCEL_DEAL, USE_ASSISTANT),
    "Approver": (*_READ, DECIDE, USE_ASSISTANT),
    "Ad Ops": (
        *_READ,
        STEER_OPERATION,
        STEER_JOB,
        SCHEDULE_JOB,
        DELIVER_EVENT,
        "tasks_app.view_webhookdelivery",
        "tasks_app.view_eventdelivery",
        _TROUBLES,
        *_RECONCILIATION,
        *_COMMANDS,
        ADD_SELLER,
        CHANGE_SELLER,
        USE_ASSISTANT,
    ),
    "Finance": (*_READ, USE_ASSISTANT),
    "Auditor": (
        *_READ,
        "tasks_app.view_webhookdelivery",
        "tasks_app.view_eventdelivery",
        *_RECONCILIATION,
        *_COMMANDS,
        "tasks_app.view_actor",
        *_PEOPLE,
        VIEW_SECURITY_LOG,
        USE_ASSISTANT,
        VIEW_TURNS,
    ),
    "Integration": (*_READ, SUBMIT_CAMPAIGN, SEND_OPERATION, DELIVER_EVENT),
    "Administrator": (
        *_READ,
        SUBMIT_CAMPAIGN,
        DECIDE,
        SEND_OPERATION,
        STEER_OPERATION,
        STEER_JOB,
        SCHEDULE_JOB,
        DELIVER_EVENT,
        CANCEL_DEAL,
        TURN_KILL_SWITCH,
        MANAGE_POLICIES,
        ACCEPT_RISK,
        *_COMMANDS,
        "tasks_app.view_webhookdelivery",
        "tasks_app.view_eventdelivery",
        _TROUBLES,
        *_RECONCILIATION,
        "tasks_app.view_actor",
        VIEW_SECURITY_LOG,
        USE_ASSISTANT,
        GOVERN_ASSISTANT,
        VIEW_TURNS,
        *(
            f"tasks_app.{verb}_{model}"
            for model in ("house", "user", "team", "advertiser", "seller", "account")
            for verb in ("view", "add", "change")
        ),
        "auth.view_group",
    ),
}


def roles_after_migrate(**_: object) -> None:
    """A receiver of `post_migrate`: whatever was changed by hand, roles hold their rights again."""
    roles_sync()


def roles_sync() -> None:
    """Make every role group hold exactly its rights. Raises KeyError for a right that does not exist."""
    held = {
        f"{p.content_type.app_label}.{p.codename}": p
        for p in Permission.objects.select_related("content_type")
    }
    for role, rights in ROLES.items():
        group, _ = Group.objects.get_or_create(name=role)
        group.permissions.set([held[right] for right in rights])
