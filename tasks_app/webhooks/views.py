"""POST /webhooks/adcp/<seller>/ through Django's own chain: what the edge (see `edge`) does not take
itself."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from tasks_app.webhooks.answer import Incoming
from tasks_app.webhooks.receive import MAX_BODY_BYTES, delivery_receive


@csrf_exempt
@require_POST
def adcp_webhook(request: HttpRequest, seller: str) -> JsonResponse:
    """Task news from a seller: 2xx durable, 4xx refused (see `receive`)."""
    answer = delivery_receive(
        Incoming(
            seller=seller,
            url=f"{settings.PUBLIC_URL}{request.get_full_path()}",
            headers={name.lower(): value for name, value in request.headers.items()},
            body=request.read(MAX_BODY_BYTES + 1),
            source=request.META.get("REMOTE_ADDR", ""),
        )
    )
    return JsonResponse(answer.body, status=answer.status, headers=answer.headers)
