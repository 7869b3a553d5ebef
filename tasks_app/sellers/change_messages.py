"""Messages after a change of a seller or an account was saved, or withdrawn."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest

from tasks_app.desk.listing import ListPage
from tasks_app.desk.page import viewer
from tasks_app.sellers import presenters
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.services import change_withdraw
from tasks_app.sellers.trust import Made


def show_change(page: ListPage, request: HttpRequest, row: Seller | Account, made: Made) -> None:
    """Say what was written, and what waits for a second person."""
    if made.changed:
        page.log_change(request, row, f"Changed {', '.join(made.changed)}")
        messages.success(request, f"Saved: {', '.join(made.changed).replace('_', ' ')}.")
    if made.waiting is not None:
        waits = presenters.trust_lines(made.waiting)
        messages.warning(
            request,
            f"Waits for a second person: {', '.join(label for label, _, _ in waits).lower()}. "
            f"The present values stay in force. {presenters.agreeing_words(made.waiting)}",
        )


def withdraw_shown_change(request: HttpRequest, row: Seller | Account) -> None:
    """Withdraw the change that the page showed, and say what came of it."""
    if change_withdraw(row=row, actor=viewer(request), seen=request.POST.get("shown", "")):
        messages.success(request, "Withdrawn: the present values stay.")
    else:
        messages.warning(
            request,
            "Nothing was withdrawn: what this page showed was decided or withdrawn since it was opened.",
        )
