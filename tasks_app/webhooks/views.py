"""POST /webhooks/adcp/<seller>/: the HTTP edge, nothing else."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from tasks_app.sellers.models import Seller
from tasks_app.webhooks.receive import MAX_BODY_BYTES, Answer, delivery_receive


@csrf_exempt
@require_POST
def adcp_webhook(request: HttpRequest, seller: str) -> JsonResponse:
    """Task news from a seller: 2xx durable, 4xx refused (see `receive`)."""
    found = Seller.objects.filter(slug=seller).first()
    if found is None:
        return JsonResponse({"error": "unknown seller"}, status=404)
    body = request.read(MAX_BODY_BYTES + 1)
    answer: Answer = delivery_receive(
        seller=found,
        url=f"{settings.PUBLIC_URL}{request.get_full_path()}",
        headers=dict(request.headers),
        content_type=request.content_type or "",
        body=body,
    )
    name = "status" if answer.status < 400 else "error"
    return JsonResponse({name: answer.word}, status=answer.status, headers=answer.headers)
