"""The view that webhooks are measured against: it checks the HMAC and inserts one row."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from typing import Any

import django
import environ
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

_INSERT = "insert into bench_delivery (key, body) values (%s, %s)"


@csrf_exempt
def webhook(request: HttpRequest) -> JsonResponse:
    """Keep one signed delivery."""
    body, stamp = request.body, request.headers["X-AdCP-Timestamp"]
    mac = hmac.digest(os.environ["BENCH_SECRET"].encode(), stamp.encode() + b"." + body, hashlib.sha256)
    signed = hmac.compare_digest(f"sha256={mac.hex()}", request.headers["X-AdCP-Signature"])
    if not signed or abs(time.time() - int(stamp)) > 300:
        return JsonResponse({"error": "signature"}, status=401)
    delivery = json.loads(body)
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [delivery["idempotency_key"], json.dumps(delivery)])
    return JsonResponse({"status": "taken"})


def _application() -> Any:
    database: dict[str, Any] = environ.Env.db_url_config(os.environ["DATABASE_URL"])
    pool = {"min_size": 1, "max_size": 16, "timeout": 10}
    database["OPTIONS"] = {**database.get("OPTIONS", {}), "pool": pool}
    settings.configure(
        DATABASES={"default": database},
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        USE_TZ=True,
        SECRET_KEY=os.environ["BENCH_SECRET"],
    )
    django.setup()
    return get_asgi_application()


urlpatterns = [path("webhooks/adcp/bench/", webhook)]
application = _application()
