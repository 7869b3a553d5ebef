"""What people write of an approval policy and of an exchange rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from tasks_app.approvals.kinds import kind_names
from tasks_app.approvals.policy_models import ApprovalPolicy, ExchangeRate, OnExpiry, PolicyRule
from tasks_app.approvals.policy_roles import roles_that_decide
from tasks_app.approvals.policy_services import MOST_APPROVERS, PolicyDraft
from tasks_app.approvals.rates import rate_problems
from tasks_app.money import typed_amount, typed_rate
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.scope import teams_of, visible

_HOUR = timedelta(hours=1)
_SPANS = ("deadline", "escalate_after")
# Fields that say something for some rules only.
OF_RULES: Mapping[str, tuple[PolicyRule, ...]] = {
    "limit": (PolicyRule.AMOUNT, PolicyRule.SPLITTING),
    "currency": (PolicyRule.AMOUNT, PolicyRule.SPLITTING),
    "gap_days": (PolicyRule.SPLITTING,),
    "percent": (PolicyRule.CHANGE,),
    "categories": (PolicyRule.SENSITIVE,),
}
SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("What it catches", ("name", "rule", *OF_RULES, "kinds", "team", "advertiser")),
    ("Who decides", ("quorum", "roles")),
    (
        "Until when, and what else happens",
        ("deadline", "business_hours", "escalate_after", "escalate_to", "on_expiry"),
    ),
    ("This change", ("active", "reason")),
)


class _Listed(forms.CharField):
    """Words separated by commas."""

    def clean(self, value: Any) -> Any:
        said = super().clean(value)
        return tuple(dict.fromkeys(word.strip() for word in said.split(",") if word.strip()))


class _Amount(forms.DecimalField):
    """An amount as everything that people type is read."""

    read: Callable[[str], Decimal] = staticmethod(typed_amount)

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(self.read(value) if isinstance(value, str) and value else value)
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from error


class _Rate(_Amount):
    """A rate: three digits behind its point are a fraction."""

    read = staticmethod(typed_rate)


class _Hours(_Amount):
    """A span in hours; empty is none."""

    def __init__(self, **more: Any) -> None:
        super().__init__(required=False, max_digits=7, decimal_places=2, **more)

    def clean(self, value: Any) -> Any:
        hours = super().clean(value)
        return None if hours is None else float(hours) * _HOUR


class PolicyForm(forms.Form):
    """A policy, whole; its sentences stand beside it."""

    name = forms.CharField(max_length=80, help_text="As it is named beside what it catches")
    rule = forms.ChoiceField(choices=PolicyRule.choices, label="Catches")
    limit = _Amount(required=False, max_digits=18, decimal_places=4, help_text="At or over it")
    currency = forms.CharField(
        required=False, max_length=3, help_text="ISO 4217; other currencies are compared in USD"
    )
    gap_days = forms.IntegerField(
        label="Days between flights",
        initial=1,
        min_value=0,
        max_value=31,
        required=False,
        help_text="Flights so far apart still are one order",
    )
    percent = _Amount(
        required=False,
        max_digits=7,
        decimal_places=2,
        label="Percent",
        help_text="More than this, up or down",
    )
    categories = _Listed(
        required=False,
        max_length=1000,
        help_text="As AdCP names them, separated by commas: age_restricted, gambling_advertising",
    )
    kinds = forms.MultipleChoiceField(
        choices=lambda: kind_names().items(), widget=forms.CheckboxSelectMultiple, label="Of these questions"
    )
    team = forms.ModelChoiceField(queryset=Team.objects.none(), required=False, empty_label="All teams")
    advertiser = forms.ModelChoiceField(
        queryset=Advertiser.objects.none(), required=False, empty_label="All advertisers"
    )
    quorum = forms.IntegerField(
        min_value=1, max_value=MOST_APPROVERS, initial=1, label="How many different people"
    )
    roles = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="None chosen: all who hold the right to decide",
    )
    deadline = _Hours(label="Deadline, hours", help_text="Empty: as other policies say, else 24")
    business_hours = forms.BooleanField(
        required=False, label="Count the seller’s business hours, where known"
    )
    escalate_after = _Hours(label="Escalate after, hours", help_text="Empty: never")
    escalate_to = forms.ChoiceField(
        required=False,
        label="Escalate to",
    )
    on_expiry = forms.ChoiceField(
        choices=OnExpiry.choices,
        required=False,
        label="If nobody decides",
        help_text="Waiting never approves",
    )
    active = forms.BooleanField(required=False, initial=True, label="In force")
    reason = forms.CharField(max_length=500, label="Why this change", help_text="Kept with the version")

    def __init__(self, *args: Any, viewer: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        deciding = [(role, role) for role in roles_that_decide()]
        roles: Any = self.fields["roles"]
        roles.choices = deciding
        escalate_to: Any = self.fields["escalate_to"]
        escalate_to.choices = [("", "Nobody"), *deciding]
        team: Any = self.fields["team"]
        team.queryset = teams_of(viewer)
        advertiser: Any = self.fields["advertiser"]
        advertiser.queryset = visible(Advertiser.objects.all(), viewer).select_related("team")
        for field in self.fields.values():
            if not isinstance(field.widget, forms.CheckboxInput | forms.CheckboxSelectMultiple):
                field.widget.attrs["class"] = "fd-in below"

    @classmethod
    def of(cls, row: ApprovalPolicy, viewer: User) -> PolicyForm:
        """The form as a version stands."""
        initial: dict[str, Any] = {
            name: getattr(row, name) for name in cls.base_fields if name not in ("reason", *_SPANS)
        }
        initial["categories"] = ", ".join(row.categories)
        initial["limit"] = None if row.limit is None else f"{row.limit.normalize():f}"
        initial |= {name: _hours(getattr(row, name)) for name in _SPANS}
        return cls(initial=initial, viewer=viewer)

    def draft(self) -> PolicyDraft:
        """What the form says; of a form with mistakes, what of it can be read."""
        said = dict(getattr(self, "cleaned_data", {}))
        said.pop("reason", None)
        lists = {name: tuple(said.get(name) or ()) for name in ("kinds", "roles", "categories")}
        values: dict[str, Any] = {
            "name": "",
            **{name: value for name, value in said.items() if value is not None},
            **lists,
            "rule": PolicyRule(said.get("rule") or PolicyRule.ALWAYS),
            "on_expiry": OnExpiry(said.get("on_expiry") or ""),
            "currency": str(said.get("currency") or "").upper(),
        }
        return PolicyDraft(**values)

    def take(self, error: ValidationError) -> None:
        """Show a refusal at its fields."""
        if not hasattr(error, "error_dict"):
            self.add_error(None, error)
            return
        for name, texts in error.message_dict.items():
            for text in texts:
                self.add_error(name if name in self.fields else None, text)


class RateForm(forms.ModelForm):
    """A rate, judged as `rate_add` judges it."""

    class Meta:
        model = ExchangeRate
        fields = ["currency", "day", "usd", "source"]
        field_classes = {"usd": _Rate}
        help_texts = {
            "currency": "ISO 4217, such as EUR",
            "day": "It holds from this day on, until a later rate",
            "usd": "What one unit is worth in US dollars, such as 1.083",
            "source": "Who says so, such as ECB",
        }

    def clean(self) -> dict[str, Any]:
        said = super().clean() or {}
        said["currency"] = str(said.get("currency", "")).upper()
        if not self.errors:
            problems = rate_problems(
                currency=said["currency"], day=said["day"], usd=said["usd"], source=said["source"]
            )
            if problems:
                raise forms.ValidationError(problems)
        return said


def _hours(span: timedelta | None) -> str:
    return "" if span is None else f"{span / _HOUR:.2f}".rstrip("0").rstrip(".")
