"""What an edge means, where its declaration does not say: the reason of a move whose mover gave none.

The declarations (data/*.json) are the documents' own; documents 003 (the Gate4 matrix), 000 and 001 (figure
6.1) name these edges without describing each. A description that stands there is the one that counts.
"""

from __future__ import annotations

Edge = tuple[str, str]
# What stands in a declaration where its document has a row and no words.
PLACEHOLDERS = frozenset({"", "seed table"})

_STEP = {
    ("received", "queued"): "Everything it needs is there",
    ("received", "failed"): "Failed before it was queued",
    ("received", "cancelled"): "Cancelled before it was queued",
    ("queued", "executing"): "A worker took it",
    ("queued", "failed"): "Failed while queued",
    ("queued", "cancelled"): "Cancelled while queued",
    ("executing", "awaiting_tool"): "Waits for a call, a nested job or its next attempt",
    ("executing", "awaiting_user_confirmation"): "Waits for people to decide",
    ("executing", "completed"): "Its work is done",
    ("executing", "failed"): "Failed for good",
    ("executing", "cancelled"): "Cancelled while executing",
    ("awaiting_tool", "executing"): "What it waited for has come",
    ("awaiting_tool", "failed"): "What it waited for failed or never came",
    ("awaiting_tool", "cancelled"): "Cancelled while it waited",
    ("awaiting_user_confirmation", "executing"): "People have decided",
    ("awaiting_user_confirmation", "failed"): "People refused, or did not decide in time",
    ("awaiting_user_confirmation", "cancelled"): "Cancelled while people were asked",
}
_OPERATION = {
    ("requested", "calling_adcp"): "The call to the seller begins",
    ("calling_adcp", "submitted"): "The seller queued the task",
    ("calling_adcp", "working"): "The seller processes the task",
    ("calling_adcp", "input_required"): "The seller waits on the buyer",
    ("calling_adcp", "completed"): "The seller answered at once",
    ("calling_adcp", "failed"): "The call failed for good",
    ("submitted", "working"): "The seller took the task from its queue",
    ("submitted", "completed"): "The seller completed the queued task",
    ("submitted", "failed"): "The seller reports that the queued task failed",
    ("submitted", "canceled"): "The queued task was canceled",
    ("working", "completed"): "The seller completed the task",
    ("working", "failed"): "The seller reports that the task failed",
    ("working", "input_required"): "The seller paused the task for the buyer",
    ("input_required", "submitted"): "The seller queued the paused task again",
    ("input_required", "working"): "The seller goes on with the paused task",
    ("input_required", "completed"): "The seller completed the paused task",
    ("input_required", "failed"): "The paused task failed",
}
_WORKING = ("QUEUED", "DISPATCHING", "PROCESSING", "PREVIEW")
_JOB = {
    **{(state, "FAILED"): "A step failed beyond its retry budget" for state in _WORKING},
    **{(state, "CANCELLED"): "Marked for cancellation" for state in _WORKING},
    **{(state, "EXPIRED"): "TTL exceeded without completion" for state in _WORKING},
    **{(ended, "DELETED"): "Soft-deleted from user view" for ended in ("FAILED", "CANCELLED", "EXPIRED")},
}
_TURN = {
    (state, "failed"): f"The assistant failed in the state {state}"
    for state in ("init", "planning", "llm_call", "tool_execution", "synthesis")
}
DESCRIPTIONS: dict[str, dict[Edge, str]] = {
    "assistant_turn": _TURN,
    "job": _JOB,
    "operation": _OPERATION,
    "step": _STEP,
}
