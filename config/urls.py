"""Addresses: the admin, the API, webhooks, health."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerSplitView
from health_check.views import HealthCheckView

from campaigns.calendar.pages import calendar_urls, feed_urls
from config.api_schema import SchemaView
from tasks_app.approvals.views import approval_link
from tasks_app.assistant.pages.panel import panel_urls
from tasks_app.desk.views import desk_urls
from tasks_app.lifecycle.views import export_urls
from tasks_app.metrics import metrics_view
from tasks_app.notifications.bell import bell_view
from tasks_app.paging import lists_adopt
from tasks_app.people.first_administrator_page import urls as first_administrator_urls
from tasks_app.people.password_views import urls as password_urls
from tasks_app.people.views import urls as account_urls

admin.autodiscover()  # a worker has not done so at its start
lists_adopt(admin.site)
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index", permanent=False)),
    path("admin/audit/", include(export_urls)),
    path("admin/commitments/", include(calendar_urls)),
    path("admin/approvals/open/<str:token>/", approval_link, name="approval_link"),
    path("admin/bell/", bell_view, name="bell"),
    path("admin/assistant/", include(panel_urls)),
    path("admin/", include(desk_urls)),
    path("admin/account/", include(account_urls)),
    path("admin/", include(password_urls)),
    path("admin/", include(first_administrator_urls)),
    path("admin/", admin.site.urls),
    path("calendar/", include(feed_urls)),
    path("api/v1/", include("config.api_urls")),
    path("api/schema/", SchemaView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="api_docs"),
    path("", include("tasks_app.webhooks.urls")),
    path("health/", HealthCheckView.as_view(checks=["health_check.checks.Database"]), name="health"),
    path("metrics", metrics_view, name="metrics"),
]
handler403 = "tasks_app.desk.error_pages.permission_denied"
handler404 = "tasks_app.desk.error_pages.page_not_found"
