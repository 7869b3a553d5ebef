"""Addresses under /api/v1/."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from campaigns.api.views import CampaignViewSet
from orders.api.views import DealViewSet, OperationViewSet
from tasks_app.api.assistant import (
    AssistantModeViewSet,
    AssistantProposalViewSet,
    AssistantSessionViewSet,
    AssistantTurnViewSet,
)
from tasks_app.api.bulk import BulkViewSet
from tasks_app.api.commands import CommandViewSet, KillSwitchViewSet
from tasks_app.api.delegations import DelegationViewSet
from tasks_app.api.explain import ExplainView
from tasks_app.api.jobs import JobViewSet
from tasks_app.api.notifications import NotificationViewSet
from tasks_app.api.outside_events import OutsideEventViewSet
from tasks_app.api.schedules import ScheduleViewSet
from tasks_app.api.search import SearchView
from tasks_app.api.steering import ConflictViewSet
from tasks_app.api.views import ApprovalViewSet

router = SimpleRouter()
router.register("campaigns", CampaignViewSet, basename="campaign")
router.register("deals", DealViewSet, basename="deal")
router.register("operations", OperationViewSet, basename="operation")
router.register("conflicts", ConflictViewSet, basename="conflict")
router.register("commands", CommandViewSet, basename="command")
router.register("kill-switch", KillSwitchViewSet, basename="kill-switch")
router.register("jobs", JobViewSet, basename="job")
router.register("schedules", ScheduleViewSet, basename="schedule")
router.register("events", OutsideEventViewSet, basename="outside-event")
router.register("approvals", ApprovalViewSet, basename="approval")
router.register("delegations", DelegationViewSet, basename="delegation")
router.register("notifications", NotificationViewSet, basename="notification")
router.register("assistant/sessions", AssistantSessionViewSet, basename="assistant-session")
router.register("assistant/turns", AssistantTurnViewSet, basename="assistant-turn")
router.register("assistant/proposals", AssistantProposalViewSet, basename="assistant-proposal")
router.register("assistant/modes", AssistantModeViewSet, basename="assistant-mode")

urlpatterns = [
    # Before the router: there `bulk` would be a job’s name.
    path("jobs/bulk/", BulkViewSet.as_view({"post": "create"}), name="jobs-bulk"),
    path("search/", SearchView.as_view(), name="search"),
    path("explain/<str:named>/", ExplainView.as_view(), name="explain"),
    *router.urls,
]
