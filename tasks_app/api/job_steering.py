"""What people say when they steer a job through the API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tasks_app.api.base import StrictSerializer
from tasks_app.api.serializers import ReasonSerializer
from tasks_app.jobs.steering import MOST_PRIORITY


class SkipSerializer(ReasonSerializer):
    """Which step, by id or key (an item of a fan-out: `book[3]`), and why."""

    step = serializers.CharField(max_length=80)


class InputSerializer(ReasonSerializer):
    """To which step, by id or key, what it is given (an object), and why."""

    step = serializers.CharField(max_length=80)
    payload = serializers.DictField()


class PrioritySerializer(ReasonSerializer):
    """The lower number goes first; 100 unless it was said."""

    priority = serializers.IntegerField(min_value=0, max_value=MOST_PRIORITY)


class ResumeSerializer(StrictSerializer):
    """The job's resume token, as its graph told it."""

    resume_token = serializers.CharField(max_length=64)


class ResumedSerializer(serializers.Serializer[dict[str, Any]]):
    """How many steps were woken, and the token now."""

    woken = serializers.IntegerField()
    resume_token = serializers.CharField()
