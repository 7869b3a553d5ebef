"""Who sent this webhook: RFC 9421 signatures of the profile adcp/webhook-signing/v1, and the older HMAC.

A registration selects one of the two; the receiver checks that one and never falls back to the other
(AdCP L1/security "Mode selection is a switch, not both").
"""

from .errors import SignatureError, mode_mismatch

__all__ = ["SignatureError", "mode_mismatch"]
