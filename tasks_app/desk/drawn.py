"""Forms that carry what they were drawn from: one that is older than its row changes nothing.

A form holds every value of its row, also those that nobody touched, so an old one would bring back what
somebody else has changed since: an access taken away, a seller switched off. Each value that a form shows is
sent along as a digest; the row is locked, its form drawn anew, and where they differ nothing is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from django import forms
from django.contrib.admin.utils import unquote
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin

DRAWN = "drawn_from"
_DIGEST_CHARS, _MOST_CHARS = 12, 8000
M = TypeVar("M", bound=Model)


class _Drawn(forms.CharField):
    """Nobody's entry: it is no change by itself."""

    def has_changed(self, initial: Any, data: Any) -> bool:
        return False


class DrawnForm(forms.Form):
    """A form of one row, or a model's: the row as it is now is its `initial`. One without is of a new row."""

    # What the page shows of the row beside its fields, by a name of one word: {name: value}.
    beside: Mapping[str, Any] = MappingProxyType({})
    drawn_from = _Drawn(required=False, max_length=_MOST_CHARS, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields[DRAWN].initial = self._drawn  # asked for once everything else of the form stands

    def has_row(self) -> bool:
        """Whether it changes a row that there is."""
        instance = getattr(self, "instance", None)
        return bool(self.initial) if instance is None else not instance._state.adding

    def drawn_values(self) -> dict[str, Any]:
        """What it and its page show of the row, by the names of its fields and of what stands beside them."""
        shown = {name: one for name, one in self.fields.items() if name != DRAWN and not one.disabled}
        drawn = {
            name: one.prepare_value(self.get_initial_for_field(one, name)) for name, one in shown.items()
        }
        return {**drawn, **self.beside}

    def clean(self) -> dict[str, Any]:
        """Refuses the form where the row is not what it was drawn from."""
        said: dict[str, Any] = super().clean() or self.cleaned_data
        if self.has_row():
            changed = _differ(said.get(DRAWN) or "", self._drawn())
            if changed:
                raise ValidationError(self._refusal(changed), code="drawn_before")
        said.pop(DRAWN, None)
        return said

    def _drawn(self) -> str:
        return drawn_of(self.drawn_values()) if self.has_row() else ""

    def _refusal(self, changed: list[str]) -> str:
        named = [name for name in changed if name in self.fields or name in self.beside]
        labels = [str(self.fields[name].label or name) if name in self.fields else name for name in named]
        what = ", ".join(label.replace("_", " ").lower() for label in labels) or "this"
        return f"Nothing was saved: somebody has changed {what} since this page was opened. Open it again."


class DrawnAdmin(ModelAdmin):
    """The admin of a model whose form is a DrawnForm: the row is held while its form is judged and saved."""

    change_form_before_template = "desk/drawn_from.html"

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Without that one, which the template draws."""
        return [name for name in super().get_fields(request, obj) if name != DRAWN]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        with transaction.atomic():
            if request.method == "POST" and object_id is not None and self.has_change_permission(request):
                self._hold(object_id)
            return super().changeform_view(request, object_id, form_url, extra_context)

    def _hold(self, object_id: str) -> None:
        try:
            key = self.opts.pk.to_python(unquote(object_id))
        except ValidationError:
            return  # no row's: the page says so
        self.model._base_manager.select_for_update(no_key=True).filter(pk=key).first()


def row_held(row: M) -> M:
    """The row anew, locked until the transaction ends: what its form is drawn from when it is judged."""
    found: M = type(row)._base_manager.select_for_update(no_key=True, of=("self",)).get(pk=row.pk)
    return found


def drawn_of(values: dict[str, Any]) -> str:
    """A digest of each value, beside its name."""
    return " ".join(f"{name}={_digest(value)}" for name, value in sorted(values.items()))


def _digest(value: Any) -> str:
    if isinstance(value, list | tuple | set):
        value = sorted(map(str, value))
    plain = json.dumps("" if value is None else value, default=str, sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:_DIGEST_CHARS]


def _differ(said: str, now: str) -> list[str]:
    """The names whose values differ; all of them where nothing was said."""
    before, after = set(said.split()), set(now.split())
    return sorted({one.partition("=")[0] for one in before ^ after})
