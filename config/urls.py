"""Addresses: the admin, the API, webhooks, health."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from health_check.views import HealthCheckView

from tasks_app.lifecycle.views import export_urls
from tasks_app.people.views import urls as account_urls
from tasks_app.webhooks.views import adcp_webhook

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index", permanent=False)),
    path("admin/audit/", include(export_urls)),
    path("admin/account/", include(account_urls)),
    path("admin/", admin.site.urls),
    path("api/v1/", include("config.api_urls")),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="api_docs"),
    path("webhooks/adcp/<slug:seller>/", adcp_webhook, name="adcp_webhook"),
    path("health/", HealthCheckView.as_view(checks=["health_check.checks.Database"]), name="health"),
    path("", include("django_prometheus.urls")),
]
