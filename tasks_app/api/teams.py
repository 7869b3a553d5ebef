"""The team that a new row is for."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tasks_app.people.models import Team
from tasks_app.people.scope import team_named, teams_of


@extend_schema_field(OpenApiTypes.STR)
class TeamField(serializers.Field[Team, Any, str, Any]):
    """A team of the viewer's, by id or name. Left out it is the only one they have."""

    default_error_messages = {
        "unknown": "You have no team {given!r}.",
        "which": "Say for which of your teams.",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": False, **options})

    def get_default(self) -> Team:
        mine = list(teams_of(self.context["viewer"])[:2])
        if len(mine) != 1:
            self.fail("which")
        return mine[0]

    def to_internal_value(self, data: Any) -> Team:
        given = str(data)
        team = team_named(self.context["viewer"], given)
        if team is None:
            self.fail("unknown", given=given[:120])
        return team

    def to_representation(self, value: Team) -> str:
        return str(value.pk)
