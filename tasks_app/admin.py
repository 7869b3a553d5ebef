"""Django looks here for the admin of one app; each room registers its own."""

from tasks_app.approvals import admin as approvals
from tasks_app.approvals import delegation_admin as delegations
from tasks_app.approvals import policy_admin as policies
from tasks_app.assistant.pages import admin as assistant
from tasks_app.commands import admin as commands
from tasks_app.desk import house_admin as house
from tasks_app.desk import people_admin as people
from tasks_app.desk import person_admin as person
from tasks_app.events import admin as events
from tasks_app.jobs import admin as jobs
from tasks_app.jobs import schedule_admin as schedules
from tasks_app.lifecycle import admin as lifecycle
from tasks_app.notifications import admin as notifications
from tasks_app.notifications import webhook_admin as team_webhooks
from tasks_app.operations import admin as operations
from tasks_app.operations import conflict_admin as conflicts
from tasks_app.reconciliation import admin as reconciliation
from tasks_app.sellers import account_admin as accounts
from tasks_app.sellers import admin as sellers
from tasks_app.troubles import admin as troubles
from tasks_app.webhooks import admin as webhooks

__all__ = [
    "accounts",
    "approvals",
    "assistant",
    "commands",
    "conflicts",
    "delegations",
    "events",
    "house",
    "jobs",
    "lifecycle",
    "notifications",
    "operations",
    "people",
    "person",
    "policies",
    "reconciliation",
    "schedules",
    "sellers",
    "team_webhooks",
    "troubles",
    "webhooks",
]
