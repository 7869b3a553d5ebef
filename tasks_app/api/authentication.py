"""Authentication of the API by tokens that may be limited to some rights."""

from __future__ import annotations

from typing import Any

from drf_spectacular.contrib.knox_auth_token import KnoxTokenScheme
from knox.auth import TokenAuthentication
from rest_framework.request import Request

from tasks_app.people.tokens import note_use


class LimitedTokenAuthentication(TokenAuthentication):
    """knox's tokens, held to their own rights."""

    def authenticate(self, request: Request) -> Any:
        """Return the person, limited to the token's rights, and the token; None without a token."""
        found = super().authenticate(request)
        if found is None:
            return None
        user, token = found
        if token.rights is not None:
            user.limit_rights(token.rights)
        note_use(token)
        return found


class LimitedTokenScheme(KnoxTokenScheme):
    """The same security scheme in the API's description."""

    target_class = "tasks_app.api.authentication.LimitedTokenAuthentication"
