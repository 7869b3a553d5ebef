"""Refusals of a status change: each says entity, id, from, to and why."""

from __future__ import annotations


class TransitionError(Exception):
    """A status did not change. Attributes: entity, entity_id, from_status, to_status, why, allowed."""

    def __init__(
        self,
        entity: str,
        entity_id: object,
        from_status: str,
        to_status: str,
        why: str,
        allowed: tuple[str, ...] = (),
    ) -> None:
        self.entity, self.entity_id = entity, str(entity_id)
        self.from_status, self.to_status = from_status, to_status
        self.why, self.allowed = why, allowed
        super().__init__(f"Cannot transition {entity} {entity_id} from {from_status} to {to_status}: {why}")


class InvalidTransitionError(TransitionError):
    """No declared edge, a guard said no, or the person has no right to it."""


class StaleVersionError(TransitionError):
    """Somebody else moved the entity first; read it again."""


class UnknownStatusError(TransitionError):
    """The status is none of the lifecycle's."""
