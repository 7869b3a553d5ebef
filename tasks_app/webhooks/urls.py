"""Where sellers' webhooks come in."""

from django.urls import path

from tasks_app.webhooks.views import adcp_webhook

urlpatterns = [path("webhooks/adcp/<slug:seller>/", adcp_webhook, name="adcp_webhook")]
