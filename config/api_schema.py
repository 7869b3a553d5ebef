"""The API's description as it is served."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request


class SchemaView(SpectacularAPIView):
    """The API's description: built once by each process, for each way of writing it. It shows everything to
    everybody, and changes only with the code."""

    authentication_classes = []
    _lock = threading.Lock()
    _built: dict[str, tuple[bytes, str]] = {}  # the bytes and their ETag, by media type

    def _get_schema_response(self, request: Request) -> HttpResponseBase:
        renderer: Any = request.accepted_renderer
        with self._lock:
            if renderer.media_type not in self._built:  # from nothing that the request says
                schema = self.generator_class().get_schema(request=None, public=True)
                body = renderer.render(schema, renderer.media_type, {})
                self._built[renderer.media_type] = body, quote_etag(hashlib.sha256(body).hexdigest())
        body, etag = self._built[renderer.media_type]
        headers = {"ETag": etag, "Cache-Control": "max-age=300"}
        whole = HttpResponse(body, content_type=f"{renderer.media_type}; charset=utf-8", headers=headers)
        return get_conditional_response(request, etag=etag, response=whole) or whole
