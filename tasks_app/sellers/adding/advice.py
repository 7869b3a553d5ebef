"""Corrections to propose after a seller could not be reached or refused a call."""

from __future__ import annotations

from dataclasses import dataclass

from tasks_app.adcp import errors
from tasks_app.adcp.types import WireError
from tasks_app.sellers.models import Seller

_REFUSED_CREDENTIALS = (
    "AUTH_MISSING",
    "AUTH_INVALID",
    "AUTH_REQUIRED",
    "AUTHORIZATION_REQUIRED",
    "PERMISSION_DENIED",
)
_NO_AGENT = (errors.GARBLED, errors.TOO_LARGE, errors.HTTP_ERROR)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A sentence that says what to change, and the column of the seller that it is about; empty: none."""

    column: str = ""
    text: str = ""


_ADDRESS = {
    "https": Advice(
        column="url", text="Use https. For an agent in your own network, allow a private address instead."
    ),
    "allow_private": Advice(
        column="allow_private",
        text="Allow a private address, if the seller's agent runs in your own network.",
    ),
    "network": Advice(column="url", text="An operator adds its network to FLIGHTDECK_PRIVATE_NETWORKS."),
}
_CREDENTIALS = Advice(column="token", text="Correct the credentials, or ask the seller for new ones.")
_LATER = Advice(text="Try again in a few minutes.")
_ASK_SELLER = Advice(text="Ask the seller what it expects.")
_DISCOVERY = {
    errors.NOT_SENT: Advice(
        column="url",
        text="Check the address, and ask the seller whether its agent runs and its certificate is valid.",
    ),
    errors.NO_ANSWER: Advice(column="url", text="Ask the seller whether its agent runs, then try again."),
    errors.REDIRECTED: Advice(column="url", text="Enter the address that the seller's agent has now."),
}


def discovery_advice(error: WireError | None, protocol: str) -> Advice:
    """Return what to change after a seller could not be asked what it can do.

    None stands for a seller that answered, but says nothing that Flightdeck can use.
    """
    if error is None:
        return Advice(column="url")
    if error.code == errors.ADDRESS_REFUSED:
        other = Advice(column="url", text="Ask the seller for another address.")
        return _ADDRESS.get(str(error.details.get("remedy", "")), other)
    if error.code in _DISCOVERY:
        return _DISCOVERY[error.code]
    if error.code in _NO_AGENT and error.recovery != "transient":
        this, other_one = ("MCP", "A2A") if protocol == Seller.Protocol.MCP else ("A2A", "MCP")
        where = f"No {this} agent answers at this address."
        check = f"Check its path, and whether the seller speaks {other_one}."
        return Advice(column="url", text=f"{where} {check}")
    return read_advice(error)


def read_advice(error: WireError | None) -> Advice:
    """Return what to change after a seller that can be reached refused a read."""
    if refuses_credentials(error):
        return _CREDENTIALS
    if error is not None and error.recovery == "transient":
        return _LATER
    return _ASK_SELLER


def refuses_credentials(error: WireError | None) -> bool:
    """Return whether the seller refused our credentials, or us."""
    return error is not None and error.code in _REFUSED_CREDENTIALS


def may_need_private(error: WireError | None) -> bool:
    """Return whether the call may succeed if private addresses, and plain http, are allowed."""
    return error is not None and error.details.get("remedy") in ("https", "allow_private")
