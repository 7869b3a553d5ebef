"""The tables of document 002, as they stand there: from, to, description; legacy value, what it maps to."""

from __future__ import annotations

DEAL_STATES = (
    "quoted", "negotiating", "accepted", "booking", "booked", "delivering", "completed", "failed",
    "cancelled", "expired", "makegood_pending", "partially_canceled",
)  # fmt: skip
DEAL_TERMINAL = {"completed", "failed", "cancelled", "expired"}
DEAL_HAPPY_PATH = ("quoted", "negotiating", "accepted", "booking", "booked", "delivering", "completed")
DEAL_EDGES = (
    ("quoted", "negotiating", "Buyer initiates negotiation"),
    ("quoted", "accepted", "Quote accepted without negotiation"),
    ("negotiating", "accepted", "Deal terms accepted"),
    ("negotiating", "quoted", "Counter-offer received, re-quoting"),
    ("accepted", "booking", "Booking process started"),
    ("booking", "booked", "Booking confirmed by seller"),
    ("booked", "delivering", "Campaign delivery started"),
    ("delivering", "completed", "Campaign delivery completed"),
    ("quoted", "failed", "Quote processing failed"),
    ("negotiating", "failed", "Negotiation failed"),
    ("booking", "failed", "Booking failed"),
    ("delivering", "failed", "Delivery failed"),
    ("quoted", "cancelled", "Deal cancelled"),
    ("negotiating", "cancelled", "Deal cancelled during negotiation"),
    ("accepted", "cancelled", "Deal cancelled after acceptance"),
    ("booking", "cancelled", "Deal cancelled during booking"),
    ("booked", "cancelled", "Booked deal cancelled"),
    ("delivering", "cancelled", "Delivery cancelled"),
    ("quoted", "expired", "Quote expired"),
    ("negotiating", "expired", "Negotiation expired"),
    ("delivering", "makegood_pending", "Makegood requested for under-delivery"),
    ("makegood_pending", "delivering", "Makegood resolved, delivery resumed"),
    ("makegood_pending", "completed", "Makegood resolved, campaign complete"),
    ("makegood_pending", "failed", "Makegood could not be fulfilled"),
    ("booked", "partially_canceled", "Partial cancellation of booked units"),
    ("partially_canceled", "delivering", "Partially canceled deal begins delivery"),
    ("partially_canceled", "cancelled", "Remaining units cancelled"),
)

CAMPAIGN_STATES = (
    "initialized", "brief_received", "validation_failed", "budget_allocated", "researching",
    "awaiting_approval", "executing_bookings", "completed", "failed",
)  # fmt: skip
CAMPAIGN_HAPPY_PATH = (
    "initialized", "brief_received", "budget_allocated", "researching", "awaiting_approval",
    "executing_bookings", "completed",
)  # fmt: skip
CAMPAIGN_EDGES = (
    ("initialized", "brief_received", "Campaign brief received"),
    ("brief_received", "budget_allocated", "Budget allocated across channels"),
    ("brief_received", "validation_failed", "Brief validation failed"),
    ("budget_allocated", "researching", "Channel research started"),
    ("researching", "awaiting_approval", "Recommendations ready for approval"),
    ("awaiting_approval", "executing_bookings", "Approvals granted, executing"),
    ("executing_bookings", "completed", "All bookings executed"),
    ("brief_received", "failed", "Brief processing failed"),
    ("budget_allocated", "failed", "Budget allocation failed"),
    ("researching", "failed", "Research failed"),
    ("awaiting_approval", "failed", "Approval process failed"),
    ("executing_bookings", "failed", "Booking execution failed"),
    ("validation_failed", "initialized", "Reset after validation failure"),
    ("failed", "initialized", "Reset after failure"),
)

DSP_FLOW = {
    "initialized": "quoted",
    "request_received": "quoted",
    "discovering_inventory": "quoted",
    "evaluating_pricing": "negotiating",
    "requesting_deal": "booking",
    "deal_created": "booked",
    "failed": "failed",
}
