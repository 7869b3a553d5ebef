"""What every room of the API is made of: rights by action, rows by viewer, names by id or reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter
from rest_framework.permissions import SAFE_METHODS, BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.serializers import BaseSerializer, Serializer, ValidationError
from rest_framework.viewsets import GenericViewSet

from tasks_app.ids import REQUEST_KEY_FORM, is_request_key
from tasks_app.people.models import User

M = TypeVar("M", bound=Model)
_KEY_HEADER = "Idempotency-Key"


class HasRight(BasePermission):
    """The viewer holds the right that the view names for this action; an action without one is denied."""

    message = "You have no right to do this."

    def has_permission(self, request: Request, view: Any) -> bool:
        if view.action in (None, "metadata"):  # answered with 405, or with what the view is called
            return bool(request.user.is_authenticated)
        right = view.rights.get(view.action)
        held = right and request.user.is_authenticated and request.user.has_perm(right)
        return bool(held and token_includes(request, right))


class MayMark(IsAuthenticated):
    """Everybody logged in; a limited token only reads."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return bool(super().has_permission(request, view)) and token_includes(request)


def token_includes(request: Request, right: str = "") -> bool:
    """Return whether the API token, if it is limited, includes what the request does by `right`.

    A service that reads the user again sees all rights of the user: only this limits the token.
    """
    rights = getattr(request.auth, "rights", None)
    return rights is None or request.method in SAFE_METHODS or right in rights


class RoomViewSet(GenericViewSet[M]):
    """A room: `rights` maps each action to the right it takes, `rows(viewer)` is what a viewer may see.

    Single rows are found by id, or by reference; a row of another team is not found (404).
    """

    permission_classes: tuple[type[BasePermission], ...] = (HasRight,)
    rights: Mapping[str, str] = {}
    lookup_url_kwarg = "id"
    lookup_value_regex = "[A-Za-z0-9-]+"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.action == "list":
            self._check_filters(request)

    def _check_filters(self, request: Request) -> None:
        """A list takes its filters and the page asked for: of a misspelt one it would else show all rows.
        Raises ValidationError."""
        filters: Any = getattr(self, "filterset_class", None)
        offered = {*filters.base_filters} if filters is not None else set()
        offered |= {"cursor", "page_size"} if self.pagination_class is not None else set()
        unknown = sorted(set(request.query_params) - offered)
        if unknown:
            raise ValidationError({name: ["There is no such filter."] for name in unknown})

    def rows(self, viewer: User) -> QuerySet[M]:
        """Every row of this room that `viewer` may see."""
        raise NotImplementedError

    def get_queryset(self) -> QuerySet[M]:
        if getattr(self, "swagger_fake_view", False):
            return super().get_queryset().none()
        return self.rows(self.viewer)

    @property
    def viewer(self) -> User:
        """Who asks; authenticated, as every room demands it."""
        return cast("User", self.request.user)

    def get_object(self) -> M:
        """The row named in the address: by id, or by reference where rows have one. Raises Http404."""
        name, rows = self.kwargs["id"], self.get_queryset()
        try:
            found = rows.filter(pk=UUID(name))
        except ValueError:
            found = rows.filter(reference=name.upper()) if hasattr(rows.model, "reference") else rows.none()
        row = found.first()
        if row is None:
            raise Http404
        return row

    def read_body(self, serializer: type[BaseSerializer[Any]]) -> dict[str, Any]:
        """The body, checked by `serializer`. Raises ValidationError."""
        read = serializer(data=self.request.data, context={"viewer": self.viewer})
        read.is_valid(raise_exception=True)
        return dict(read.validated_data)


class StrictSerializer(Serializer[Any]):
    """A body in which a misspelt field is an error, not an omission."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = set(data) - set(self.fields) if isinstance(data, Mapping) else set()
        if unknown:
            raise ValidationError({name: ["There is no such field."] for name in sorted(unknown)})
        return super().to_internal_value(data)


def key_parameter(what: str) -> OpenApiParameter:
    """The Idempotency-Key in the schema: the same key with the same request answers `what` it made before."""
    told = f"The same key with the same request answers the {what} it made before."
    return OpenApiParameter(_KEY_HEADER, str, OpenApiParameter.HEADER, description=told)


def key_of(request: Request) -> str:
    """The Idempotency-Key that the caller gave; empty where there is none. Raises ValidationError."""
    key = request.headers.get(_KEY_HEADER, "").strip()
    if key and not is_request_key(key):
        raise ValidationError({_KEY_HEADER: [REQUEST_KEY_FORM]})
    return key
