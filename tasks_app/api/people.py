"""People named in a body."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tasks_app.people.models import User
from tasks_app.people.scope import people_known


@extend_schema_field(OpenApiTypes.STR)
class PersonField(serializers.Field[User, Any, str, Any]):
    """A person who may sign in and shares a team with the viewer, by username. Others are unknown, as those
    who do not exist."""

    default_error_messages = {"unknown": "There is nobody {given!r} in your teams."}

    def to_internal_value(self, data: Any) -> User:
        given = str(data)
        person = people_known(self.context["viewer"]).filter(username=given).first()
        if person is None:
            self.fail("unknown", given=given[:120])
        return person

    def to_representation(self, value: User) -> str:
        return value.username
