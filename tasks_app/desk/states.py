"""States: always a shape, a colour and a word together, so that none is told by colour alone."""

from __future__ import annotations

from typing import NamedTuple

_OUTLINE = 'fill="none" stroke="currentColor" stroke-width="1.6"'
_ROUND = 'stroke-linecap="round" stroke-linejoin="round"'
_PAPER = f'class="gl-in" {_ROUND}'

# Drawn in a box of 14 × 14; `gl-in` is the stroke in the page's background colour.
GLYPHS: dict[str, str] = {
    "done": f'<circle cx="7" cy="7" r="6.2" fill="currentColor"/><path d="M4.2 7.2l2 2 3.6-4.2" {_PAPER}/>',
    "running": (
        f'<circle cx="7" cy="7" r="5.6" {_OUTLINE} opacity=".35"/>'
        f'<path d="M7 1.4a5.6 5.6 0 0 1 5.6 5.6" {_OUTLINE} {_ROUND}/>'
        '<circle cx="7" cy="7" r="2.2" fill="currentColor"/>'
    ),
    "seller": f'<circle cx="7" cy="7" r="5.7" {_OUTLINE}/><path d="M7 3.8V7l2.2 1.5" {_OUTLINE} {_ROUND}/>',
    "person": (
        f'<path d="M7 .6 13.4 7 7 13.4.6 7z" fill="currentColor"/><path d="M7 3.7v3.6M7 9.6v.1" {_PAPER}/>'
    ),
    "overdue": f'<path d="M7 1 13.6 12.6H.4z" fill="currentColor"/><path d="M7 5.2v3.2M7 10.5v.1" {_PAPER}/>',
    "failed": (
        '<path d="M4.3.8h5.4l3.5 3.5v5.4l-3.5 3.5H4.3L.8 9.7V4.3z" fill="currentColor"/>'
        f'<path d="M4.9 4.9l4.2 4.2M9.1 4.9 4.9 9.1" {_PAPER}/>'
    ),
    "differs": (
        '<rect x=".9" y=".9" width="12.2" height="12.2" rx="2.4" fill="currentColor"/>'
        f'<path d="M3.8 5.4h6.4M3.8 8.6h6.4M8.8 3.2 5.2 10.8" {_PAPER}/>'
    ),
    "conflict": (
        '<path d="M1 4.2h8.5M6.8 1.6 9.6 4.2 6.8 6.8M13 9.8H4.5M7.2 7.2 4.4 9.8l2.8 2.6" '
        f"{_OUTLINE} {_ROUND}/>"
    ),
    "waiting": f'<circle cx="7" cy="7" r="5.7" {_OUTLINE} stroke-dasharray="2.2 2.1"/>',
    "stopped": f'<circle cx="7" cy="7" r="5.7" {_OUTLINE}/><path d="M3.2 10.8 10.8 3.2" {_OUTLINE}/>',
}
# Glyph to colour class (static/desk/flightdeck.css).
COLOURS: dict[str, str] = {
    "done": "ok",
    "running": "run",
    "seller": "run",
    "person": "you",
    "overdue": "late",
    "failed": "bad",
    "differs": "diff",
    "conflict": "bad",
    "waiting": "idle",
    "stopped": "idle",
}


class Face(NamedTuple):
    """How a state is shown."""

    glyph: str
    word: str


# Ours and the sellers' (media buy statuses keep the seller's own word). One word means one face
# wherever it stands.
_FACES: dict[str, Face] = {
    name: Face(glyph, word)
    for glyph, words in {
        "done": {
            "booked": "Booked",
            "completed": "Completed",
            "approved": "Approved",
            "healthy": "Healthy",
            "verified": "Verified",
            "applied": "Applied",
        },
        "running": {
            "delivering": "Delivering",
            "booking": "Booking",
            "working": "Working",
            "calling_adcp": "Calling",
            "accepted": "Accepted",
            "executing_bookings": "Executing bookings",
            "researching": "Researching",
            "budget_allocated": "Budget allocated",
            "brief_received": "Brief received",
            "processing": "Processing",
            "dispatching": "Dispatching",
            "executing": "Executing",
            "init": "Starting",
            "planning": "Planning",
            "llm_call": "Asking the model",
            "tool_execution": "Reading data",
            "synthesis": "Writing the reply",
            "active": "active",
        },
        "seller": {
            "submitted": "Submitted",
            "awaiting_tool": "With the seller",
            "pending_start": "pending_start",
            "makegood_pending": "Makegood pending",
            "negotiating": "Negotiating",
        },
        "person": {
            "open": "Waiting for a decision",
            "quoted": "Quoted",
            "input_required": "Input required",
            "auth_required": "Authorisation required",
            "awaiting_approval": "Awaiting approval",
            "awaiting_user_confirmation": "Waiting for a person",
            "preview": "Waiting for a person",
            "pending_creatives": "pending_creatives",
        },
        "overdue": {"timed_out": "Overdue", "overdue": "Overdue"},
        "failed": {
            "failed": "Failed",
            "rejected": "Rejected",
            "validation_failed": "Validation failed",
            "refused": "Refused",
        },
        "differs": {"differs": "Booked differently"},
        "conflict": {"conflict": "Conflict"},
        "waiting": {
            "requested": "Requested",
            "queued": "Waiting",
            "received": "Received",
            "pending": "Pending",
            "initialized": "Initialized",
            "paused": "paused",
            "pending_activation": "pending_activation",
            "stale": "Stale",
            "duplicate": "Duplicate",
            "indeterminate": "Indeterminate",
        },
        "stopped": {
            "cancelled": "Cancelled",
            "canceled": "Cancelled",
            "expired": "Expired",
            "voided": "Voided",
            "deleted": "Deleted",
            "partially_canceled": "Partially cancelled",
        },
    }.items()
    for name, word in words.items()
}


def face(status: str) -> Face:
    """How a status is shown, in whatever case; a word nobody knows (a seller's) is shown as it is."""
    return _FACES.get(status.lower()) or Face("waiting", status or "unknown")
