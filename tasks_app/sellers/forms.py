"""What people may change of a seller."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from tasks_app.desk.drawn import DrawnForm
from tasks_app.sellers.headers import (
    TOKEN_CHARS,
    headers_parse,
    headers_text,
    secret_headers_parse,
)
from tasks_app.sellers.hours import hours_of, hours_parse
from tasks_app.sellers.models import Seller
from tasks_app.sellers.timing import timing_settings
from tasks_app.sellers.trust import shown

_SHOWN = (
    *(
        "name",
        "slots",
        "active",
        "auth_scheme",
        "status_tool",
        "account_in_reads",
        "webhook_mode",
        "jwks_url",
    ),
    *("allow_private", "contact_email"),
)


class AgentForm(forms.Form):
    """Fields of a new seller that its settings have too."""

    headers = forms.CharField(
        required=False,
        max_length=6000,
        label="Headers",
        help_text="Sent with every request, such as a tenant: one Name: value per line",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    secret_headers = forms.CharField(
        required=False,
        max_length=6000,
        label="Secret headers",
        help_text="Such as the key of a gateway. They are stored encrypted.",
        widget=forms.Textarea(attrs={"rows": 2, "autocomplete": "new-password"}),
    )
    jwks_url = forms.URLField(
        required=False,
        max_length=500,
        label="Address of its keys (JWKS)",
        assume_scheme="https",
        help_text="For RFC 9421",
    )
    allow_private = forms.BooleanField(
        required=False,
        label="The agent runs in a private network",
        help_text="Allows plain http, and addresses in the networks of FLIGHTDECK_PRIVATE_NETWORKS.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if not isinstance(field.widget, forms.CheckboxInput | forms.RadioSelect):
                field.widget.attrs["class"] = "fd-in below"

    def clean_headers(self) -> dict[str, str]:
        """Return the headers as they are stored."""
        return headers_parse(self.cleaned_data["headers"])

    def clean_secret_headers(self) -> dict[str, str]:
        """Return the secret headers by name."""
        return secret_headers_parse(self.cleaned_data["secret_headers"])


class SellerForm(AgentForm, DrawnForm):
    """The settings card of a seller's page. The token is written, never shown."""

    field_order = (
        *("name", "slots", "active", "auth_scheme", "token", "forget_token", "headers", "secret_headers"),
        *("forget_secret_headers", "webhook_mode", "jwks_url", "allow_private"),
    )

    name = forms.CharField(max_length=120)
    slots = forms.IntegerField(
        min_value=1, max_value=500, label="Calls at a time", help_text="How many calls may be open at once"
    )
    active = forms.BooleanField(required=False, help_text="It is asked and booked with while this is on")
    auth_scheme = forms.ChoiceField(
        required=False, choices=Seller.AuthScheme.choices, label="Kind of credentials"
    )
    token = forms.CharField(
        required=False,
        max_length=TOKEN_CHARS,
        strip=True,
        label="New token",
        help_text="Leave it empty to keep the stored one. It is never shown.",
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
    )
    forget_token = forms.BooleanField(
        required=False, label="Remove the token", help_text="No call carries it from then on"
    )
    secret_headers = forms.CharField(
        required=False,
        max_length=6000,
        label="New secret headers",
        help_text="They replace all stored ones. Leave it empty to keep those. They are never shown.",
        widget=forms.Textarea(attrs={"rows": 2, "autocomplete": "off"}),
    )
    forget_secret_headers = forms.BooleanField(
        required=False,
        label="Remove the secret headers",
        help_text="No call carries them from then on; a second person must agree while the token stays",
    )
    webhook_mode = forms.ChoiceField(
        required=False, choices=Seller.WebhookMode.choices, label="How it proves its webhooks"
    )
    status_tool = forms.CharField(
        required=False,
        max_length=80,
        label="Status tool",
        help_text="Its own name for the tool that tells the state of a task; empty: the one it lists",
    )
    account_in_reads = forms.ChoiceField(
        required=False,
        choices=Seller.AccountInReads.choices,
        label="Account in reads",
        help_text="Whether reads of media buys and tasks name the account",
    )
    contact_email = forms.EmailField(
        required=False, label="Contact", help_text="Whom people write to about an operation"
    )
    business_hours = forms.CharField(
        required=False,
        max_length=120,
        label="Business hours",
        help_text="Longer waits count these hours only: Mon-Fri 09:00-17:30 America/New_York",
    )
    risk_accepted = forms.BooleanField(
        required=False,
        label="Accept that an order may be booked twice",
        help_text="It does not promise to recognise a repeated order. After a lost reply Flightdeck sends "
        "the same order once more. Your name is recorded.",
    )
    reason = forms.CharField(
        required=False, max_length=500, label="Reason", help_text="For the person who must agree, if one must"
    )

    @classmethod
    def of(cls, seller: Seller, said: QueryDict | None = None) -> SellerForm:
        """The form as the seller stands, and what was said in it."""
        initial = {name: getattr(seller, name) for name in _SHOWN}
        initial["headers"] = headers_text(seller.headers)
        initial["business_hours"] = str(hours_of(seller.business_hours) or "")
        initial["risk_accepted"] = bool(seller.idempotency_risk_accepted_by)
        form = cls(said, initial=initial)
        secrets = " ".join(shown(seller, name) for name in ("token", "secret_headers"))
        # A token, or the word that a risk is taken, is for the host that the page named.
        form.beside = {"address": f"{seller.protocol} {seller.url}", "credentials": secrets}
        return form

    def clean_business_hours(self) -> dict[str, Any]:
        """As they are stored."""
        hours = hours_parse(self.cleaned_data["business_hours"])
        return hours.as_json() if hours else {}

    def take(self, error: ValidationError) -> None:
        """Show a service's refusal at its fields."""
        take(self, error)


class TimingForm(DrawnForm):
    """The numbers of one seller: an empty field is the document's own, which stands in it in grey."""

    def __init__(self, *args: object, seller: Seller, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        for one in timing_settings(seller):
            unit = {"s": "seconds", "times": "times", "x": "factor"}[one.unit]
            self.fields[f"timing_{one.name}"] = forms.FloatField(
                required=False,
                label=f"{one.label} ({unit})",
                initial=f"{one.value:g}" if one.own else None,
                help_text=f"{one.value:g}: {one.source}",
                widget=forms.NumberInput(
                    attrs={"class": "fd-in below", "placeholder": f"{one.default:g}", "step": "any"}
                ),
            )

    def has_row(self) -> bool:
        """Always: it is the seller's."""
        return True

    @property
    def numbers(self) -> dict[str, float | None]:
        """What was entered, by the number's name."""
        return {name.removeprefix("timing_"): value for name, value in self.cleaned_data.items()}


def take(form: forms.Form, error: ValidationError) -> None:
    """Show a service's refusal at the form's fields."""
    told = error.message_dict if hasattr(error, "error_dict") else {None: error.messages}
    for name, problems in told.items():
        for problem in problems:
            form.add_error(name if name in form.fields else None, problem)
