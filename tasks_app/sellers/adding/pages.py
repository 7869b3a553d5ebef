"""The page that adds a seller, and the parts of a seller's page that ask it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_safe
from unfold.admin import ModelAdmin

from tasks_app.adcp.types import DiscoveryError
from tasks_app.desk import terms
from tasks_app.desk.items import raised
from tasks_app.desk.listing import ListPage
from tasks_app.desk.page import viewer
from tasks_app.people.models import User
from tasks_app.sellers.accounts import AccountRequest, account_request, open_account_requests
from tasks_app.sellers.adding.advice import discovery_advice
from tasks_app.sellers.adding.forms import AccountRequestForm, NewSellerForm
from tasks_app.sellers.adding.probe import ask_seller
from tasks_app.sellers.adding.readiness import is_ready, requirements
from tasks_app.sellers.forms import take
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.selectors import accounts_of
from tasks_app.sellers.services import seller_add

_ADDED = "seller_added"  # in the session: the seller whose page asks it at once


class AddSellerPages(ListPage):
    """Adds a seller once it has said what it can do; asks one again; asks it for an account."""

    def get_urls(self) -> list[URLPattern]:
        ready: Callable[..., HttpResponse] = self.admin_site.admin_view(self.ready_view)
        return [
            path("<uuid:pk>/ready/", require_safe(ready), name="tasks_app_seller_ready"),
            *super().get_urls(),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(ModelAdmin.has_add_permission(self, request))

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask the seller what it can do, outside a transaction, and keep it if it answers."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = NewSellerForm(request.POST if request.method == "POST" else None)
        if form.is_bound and form.is_valid():
            seller = _add(form, viewer(request))
            if seller is not None:
                self.log_addition(request, seller, "Added")
                messages.success(request, f"{seller} is added.")
                request.session[_ADDED] = str(seller.pk)
                return HttpResponseRedirect(reverse("admin:tasks_app_seller_change", args=[seller.pk]))
        return self.page(request, "desk/seller_add.html", form=form, title="Add a seller")

    def ready_view(self, request: HttpRequest, pk: Any) -> HttpResponse:
        """Return what the seller lacks before the first order, for the page that shows it."""
        seller = self.get_object(request, str(pk))
        if not isinstance(seller, Seller) or not self.has_view_permission(request, seller):
            raise Http404
        accounts = accounts_of(seller, viewer(request))
        return render(request, "desk/seller_ready.html", readiness_data(seller, accounts))

    def ask(self, request: HttpRequest, seller: Seller) -> HttpResponse:
        """Ask the seller now and return what came back, for the page that shows it."""
        answers = ask_seller(Seller.objects.get(pk=seller.pk), viewer(request))
        answer = render(request, "desk/seller_answers.html", {"answers": answers})
        answer["HX-Trigger"] = "seller-asked"
        return answer

    def request_account(self, request: HttpRequest, seller: Seller) -> AccountRequestForm | None:
        """Ask the seller for an account. Return the form with its errors, None if the request was sent."""
        user = viewer(request)
        form = AccountRequestForm(request.POST, seller=seller, user=user)
        if not form.is_valid():
            return form
        wanted = AccountRequest(seller=seller, **form.cleaned_data)
        try:
            account_request(wanted, user)
        except ValidationError as error:
            take(form, error)
            return form
        messages.success(request, f"{seller} is asked for an account of {wanted.advertiser}.")
        return None

    def asking_data(self, request: HttpRequest, seller: Seller) -> dict[str, Any]:
        """Return what the page of a seller shows to a person who may ask it."""
        if not self.has_change_permission(request, seller):
            return {}
        form = None
        if seller.active and seller.offers("sync_accounts"):
            form = AccountRequestForm(seller=seller, user=viewer(request))
        just_added = request.method == "GET" and request.session.pop(_ADDED, "") == str(seller.pk)
        return {"asks_at_once": just_added, "account_form": form if form and form.choices else None}


def readiness_data(seller: Seller, accounts: Sequence[Account]) -> dict[str, Any]:
    """Return what templates/desk/seller_ready.html is given; `accounts` are those that the viewer sees."""
    found = requirements(seller, accounts)
    return {
        "seller": seller,
        "requirements": found,
        "heading": "Ready to buy" if is_ready(found) else "Before the first order",
        "accounts": [(one, terms.payment(one.payment_terms)) for one in accounts],
        "waits_for_account": open_account_requests(seller).exists(),
    }


def _add(form: NewSellerForm, user: User) -> Seller | None:
    """Add the seller; return None if the form has errors now."""
    settings = form.settings()
    try:
        return seller_add(**settings, new=True, actor=user)[0]
    except ValidationError as error:
        take(form, error)
    except DiscoveryError as error:
        advice = discovery_advice(error.error, settings["protocol"])
        form.add_error(advice.column or None, f"{raised(error.reason)}. {advice.text}".strip())
    return None
