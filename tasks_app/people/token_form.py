"""The form of a new API token."""

from __future__ import annotations

from typing import Any

from django import forms

from tasks_app.people.models import User
from tasks_app.people.second_factor import factor_confirmed
from tasks_app.people.tokens import rights_offered

_IN = {"class": "fd-in below"}
_CODE = forms.TextInput(attrs={**_IN, "inputmode": "numeric", "autocomplete": "one-time-code"})
_DAYS = [(7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "a year")]
_CHOSEN, _ALL = "chosen", "all"


class TokenForm(forms.Form):
    """Name, time and rights of a token of `user`."""

    name = forms.CharField(
        label="Name", max_length=60, help_text="Such as Reporting", widget=forms.TextInput(attrs=_IN)
    )
    days = forms.TypedChoiceField(
        label="Valid for", choices=_DAYS, coerce=int, initial=90, widget=forms.Select(attrs=_IN)
    )
    limit = forms.ChoiceField(
        label="It may",
        choices=[(_CHOSEN, "read, and do what is marked below"), (_ALL, "do everything that I may do")],
        initial=_CHOSEN,
        widget=forms.Select(attrs=_IN),
    )
    rights = forms.MultipleChoiceField(
        label="Rights besides reading", required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, data: Any = None, *, user: User) -> None:
        super().__init__(data, auto_id="token-%s")
        self.fields["rights"].choices = rights_offered(user)  # type: ignore[attr-defined]
        if factor_confirmed(user):
            self.fields["code"] = forms.CharField(label="Code of your app", max_length=40, widget=_CODE)

    def chosen_rights(self) -> list[str] | None:
        """Return the rights besides reading; None for everything."""
        return None if self.cleaned_data["limit"] == _ALL else self.cleaned_data["rights"]
