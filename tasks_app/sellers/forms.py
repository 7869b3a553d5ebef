"""What people may change of a seller."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from tasks_app.sellers.hours import hours_of, hours_parse
from tasks_app.sellers.models import Seller
from tasks_app.sellers.timing import timing_settings


class SellerForm(forms.Form):
    """The settings card of a seller's page. The token is written, never shown."""

    name = forms.CharField(max_length=120)
    slots = forms.IntegerField(min_value=1, max_value=500, help_text="Calls out at the same time")
    active = forms.BooleanField(required=False, help_text="Asked and booked with while on")
    jwks_url = forms.URLField(
        required=False,
        max_length=500,
        label="Keys (JWKS)",
        assume_scheme="https",
        help_text="Where its RFC 9421 keys are published",
    )
    allow_private = forms.BooleanField(
        required=False, label="Private address", help_text="May live on a private or loopback address"
    )
    contact_email = forms.EmailField(
        required=False, label="Contact", help_text="Whom people write to about an operation"
    )
    business_hours = forms.CharField(
        required=False,
        max_length=120,
        label="Business hours",
        help_text="Waiting longer is counted in them, as in Mon-Fri 09:00-17:30 America/New_York",
    )
    token = forms.CharField(
        required=False,
        max_length=500,
        strip=True,
        label="New token",
        help_text="Left empty, the stored one stays. It is never shown.",
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "off"}),
    )
    risk_accepted = forms.BooleanField(
        required=False,
        label="Accept the idempotency risk",
        help_text="It does not declare that it answers a repeated purchase again: after a lost reply the "
        "same purchase is sent once more and may be booked twice. Your name is recorded.",
    )

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        for field in self.fields.values():
            if not isinstance(field, forms.BooleanField):
                field.widget.attrs["class"] = "fd-in below"

    @classmethod
    def of(cls, seller: Seller) -> SellerForm:
        """The form as the seller stands."""
        shown = ("name", "slots", "active", "jwks_url", "allow_private", "contact_email")
        initial = {name: getattr(seller, name) for name in shown}
        initial["business_hours"] = str(hours_of(seller.business_hours) or "")
        return cls(initial={**initial, "risk_accepted": bool(seller.idempotency_risk_accepted_by)})

    def clean_business_hours(self) -> dict[str, Any]:
        """As they are stored."""
        hours = hours_parse(self.cleaned_data["business_hours"])
        return hours.as_json() if hours else {}

    def take(self, error: ValidationError) -> None:
        """Show a service's refusal at its fields."""
        take(self, error)


class TimingForm(forms.Form):
    """The numbers of one seller: an empty field is the document's own, which stands in it in grey."""

    def __init__(self, *args: object, seller: Seller, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
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
