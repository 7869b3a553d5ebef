"""What people write of a schedule."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils import timezone

from tasks_app import days
from tasks_app.adcp.strict_json import MalformedBody, parse_typed
from tasks_app.days import time_zones
from tasks_app.desk.drawn import DrawnForm
from tasks_app.jobs.recipes import recipes_startable
from tasks_app.jobs.schedule import Schedule
from tasks_app.jobs.schedules import ScheduleDraft, ScheduleRefusedError
from tasks_app.people.models import Team, User
from tasks_app.people.scope import teams_of

_MAX_INPUTS = 20_000


def _recipes() -> list[tuple[str, str]]:
    return [(one.name, one.title) for one in recipes_startable()]


class _WallClock(forms.DateTimeField):
    """What stands there, without a zone: the form's own zone field says which."""

    def to_python(self, value: Any) -> datetime | None:
        with timezone.override(UTC):
            read: datetime | None = super().to_python(value)
        return read.replace(tzinfo=None) if read else None


class ScheduleForm(DrawnForm):
    """A recipe, its inputs and when; a time is read in the zone below it."""

    name = forms.CharField(max_length=80)
    team = forms.ModelChoiceField(queryset=Team.objects.none(), empty_label=None)
    recipe = forms.ChoiceField(choices=_recipes, help_text="Those that people may start")
    inputs = forms.CharField(
        required=False,
        max_length=_MAX_INPUTS,
        initial="{}",
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text='A JSON object, as in {"channel": "ctv"}',
    )
    start_at = _WallClock(
        required=False,
        label="Once, at",
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    cron = forms.CharField(
        required=False,
        max_length=120,
        label="Or by cron",
        help_text="Minute, hour, day of month, month, day of week: 0 9 * * mon-fri",
    )
    zone = forms.ChoiceField(choices=time_zones, initial="UTC", label="Time zone")
    missed = forms.ChoiceField(
        choices=Schedule.Missed.choices, label="Times that were missed", help_text="While no worker ran"
    )
    priority = forms.IntegerField(min_value=0, max_value=1000, initial=100, help_text="Lower goes first")

    def __init__(self, *args: Any, viewer: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        teams: Any = self.fields["team"]
        teams.queryset = teams_of(viewer)
        for field in self.fields.values():
            field.widget.attrs["class"] = "fd-in below"

    @classmethod
    def of(cls, schedule: Schedule, viewer: User, said: QueryDict | None = None) -> ScheduleForm:
        """The form as the schedule stands, and what was said in it."""
        shown = ("name", "team", "recipe", "cron", "zone", "missed", "priority")
        initial: dict[str, Any] = {name: getattr(schedule, name) for name in shown}
        initial["inputs"] = json.dumps(schedule.inputs, ensure_ascii=False, indent=2)
        if schedule.start_at is not None:
            initial["start_at"] = days.wall(schedule.start_at, schedule.zone)
        return cls(said, initial=initial, viewer=viewer)

    def clean_inputs(self) -> Any:
        """As a JSON object."""
        try:
            return parse_typed(self.cleaned_data["inputs"])
        except MalformedBody as error:
            raise forms.ValidationError(f"That is no JSON object: {error}") from error

    def draft(self) -> ScheduleDraft:
        """What a valid form says."""
        said = dict(self.cleaned_data)
        moment: datetime | None = said["start_at"]
        if moment is not None:
            said["start_at"] = days.placed(moment, said["zone"])
        return ScheduleDraft(**said)

    def take(self, error: ScheduleRefusedError) -> None:
        """Show a refusal at its fields."""
        for name, texts in error.errors.items():
            for text in texts:
                self.add_error(name or None, text)
