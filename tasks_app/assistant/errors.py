"""Errors of the assistant, classified as in document 004, section 2.4."""

from __future__ import annotations

MODEL_TIMEOUT = "Model timeout, please try again"
INTERNAL = "Internal error occurred"
MODEL_ERROR = "The model's endpoint refused the question or gave an answer that cannot be read"
NO_ANSWER = "I found no answer."
LOCKED = "The assistant is locked: an administrator can unlock it"
CRITICAL = "Critical error occurred. The agent is recovering."


class AssistantRefusedError(Exception):
    """The request is not possible. The text is a sentence for the user; nothing has changed.

    `status` is the HTTP status of the REST API's answer.
    """

    status = 409


class NotPermittedError(AssistantRefusedError):
    """The user has no right to this."""

    status = 403


class UnknownSessionError(AssistantRefusedError):
    """There is no such session, or it belongs to somebody else."""

    status = 404


class ModelError(Exception):
    """The model's endpoint refused the request, or its answer cannot be read."""


class ModelTimeoutError(ModelError):
    """The model did not answer in time, or could not be reached."""


class CriticalViolationError(Exception):
    """A tool did what no tool may do: it wrote, or it returned an object outside the user's scope."""


class TurnLostError(Exception):
    """The turn was stopped, or another process has taken it over. What was done since is stale."""
