"""The column that a lifecycle moves; a model of a migration's history has it without its machine."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.db.models.signals import class_prepared
from django_fsm import FSMField

_OF_A_MIGRATION = "__fake__"  # the module of models as they once were: django.db.migrations.state


class StatusField(FSMField):
    """django-fsm's field. It looks for transitions in every model class that is prepared from then on, of
    which the thousands that migrations make have none: a third of their time went there."""

    def contribute_to_class(
        self, cls: type[Model], name: str, private_only: bool = False, **kwargs: Any
    ) -> None:
        super().contribute_to_class(cls, name, private_only=private_only, **kwargs)
        if cls.__module__ == _OF_A_MIGRATION:
            class_prepared.disconnect(self._collect_transitions)
