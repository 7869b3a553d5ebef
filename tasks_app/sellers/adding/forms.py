"""Forms of the page that adds a seller, and of the request for an account."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.html import format_html
from django.utils.safestring import SafeString

from tasks_app.money import currency_codes
from tasks_app.people.models import Advertiser, User
from tasks_app.people.scope import visible
from tasks_app.sellers.accounts import account_binding, open_account_requests
from tasks_app.sellers.forms import AgentForm
from tasks_app.sellers.headers import TOKEN_CHARS, token_check
from tasks_app.sellers.models import Seller
from tasks_app.sellers.names import name_check

_IN = {"class": "fd-in below"}
_M = Seller.WebhookMode
_WEBHOOKS = [
    (_M.NONE, "No webhooks", "Flightdeck polls the seller for the state of each order."),
    (
        _M.RFC9421,
        "Signed with the seller’s key (RFC 9421)",
        "The current way of AdCP: the signature proves the sender and the content.",
    ),
    (
        _M.HMAC,
        "HMAC-SHA256 with a shared secret",
        "The older way of AdCP 3: Flightdeck makes the secret and sends it with each order.",
    ),
    (
        _M.HMAC_BODY,
        "HMAC-SHA256 over the body alone",
        "From before AdCP 3: a shared secret, but the signature covers no time stamp.",
    ),
    (
        _M.BEARER,
        "Bearer credentials",
        "The oldest way: it proves the sender, but not the content.",
    ),
]


def _explained(title: str, sentence: str) -> SafeString:
    """Return the label of a radio button: a title and one sentence."""
    return format_html('<span class="m">{}</span><br><span class="s mute">{}</span>', title, sentence)


class NewSellerForm(AgentForm):
    """A seller that is added: its address, our credentials, its webhooks, its network.

    What was typed is shown again after a refusal, secrets too: nobody else sees that page, and it is not
    stored by browsers.
    """

    name = forms.CharField(max_length=120, help_text="As your colleagues know it")
    url = forms.URLField(
        label="Address",
        max_length=500,
        assume_scheme="https",
        help_text="The MCP endpoint, often ending in /mcp, or the host of the A2A agent card",
    )
    protocol = forms.ChoiceField(choices=Seller.Protocol.choices)
    auth_scheme = forms.ChoiceField(label="Kind of credentials", choices=Seller.AuthScheme.choices)
    token = forms.CharField(
        label="Token",
        required=False,
        max_length=TOKEN_CHARS,
        help_text="For Basic: name:password. It is stored encrypted and never shown on another page.",
        widget=forms.PasswordInput(render_value=True, attrs={"autocomplete": "new-password"}),
    )
    webhook_mode = forms.ChoiceField(
        label="How the seller proves its webhooks",
        initial=_M.NONE,
        choices=[(mode, _explained(title, sentence)) for mode, title, sentence in _WEBHOOKS],
        widget=forms.RadioSelect,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = "For RFC 9421. Leave it empty to find the keys through the seller’s brand.json."
        self.fields["jwks_url"].help_text = own

    def clean(self) -> None:
        """Refuse the name of another seller, and a token that no request can carry."""
        super().clean()
        token, name = self.cleaned_data.get("token"), self.cleaned_data.get("name")
        try:
            if token:
                token_check(token, basic=self.cleaned_data.get("auth_scheme") == Seller.AuthScheme.BASIC)
        except ValidationError as error:
            self.add_error("token", error)
        try:
            if name:
                name_check(name)
        except ValidationError as error:
            self.add_error(None, error)

    def settings(self) -> dict[str, Any]:
        """Return the arguments of `seller_add`."""
        settings = dict(self.cleaned_data)
        settings["webhooks"] = settings.pop("webhook_mode")
        return settings


class AccountRequestForm(forms.Form):
    """The account that a seller is asked for: whose, and what the seller binds it to.

    Advertisers that have an account with the seller, or an open request for one, are left out.
    """

    advertiser = forms.ModelChoiceField(
        queryset=Advertiser.objects.none(), empty_label="Choose", widget=forms.Select(attrs=_IN)
    )

    def __init__(self, data: Any = None, *, seller: Seller, user: User) -> None:
        super().__init__(data, auto_id="account-%s")
        without = Advertiser.objects.exclude(pk__in=seller.accounts.values("advertiser"))
        wanting = visible(without, user).exclude(pk__in=open_account_requests(seller).values("advertiser"))
        self.fields["advertiser"].queryset = wanting  # type: ignore[attr-defined]
        self.choices = list(wanting[:2])
        if len(self.choices) == 1:
            self.fields["advertiser"].initial = self.choices[0]
        binding = account_binding(seller)
        if binding.currency:
            self.fields["currency"] = _choice(currency_codes(), "The account stays in this currency.")
        if binding.zones is not None:
            self.fields["zone"] = _choice(binding.zones, "The account stays in this time zone.")


def _choice(values: Iterable[str], help_text: str) -> forms.ChoiceField:
    choices = [("", "Choose"), *((value, value) for value in values)]
    return forms.ChoiceField(choices=choices, help_text=help_text, widget=forms.Select(attrs=_IN))
