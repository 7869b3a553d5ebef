"""The one error of signature checks; its codes are those of AdCP L1/security "Webhook error taxonomy"."""

from __future__ import annotations

HEADER_MALFORMED = "webhook_signature_header_malformed"
REQUIRED = "webhook_signature_required"
PARAMS_INCOMPLETE = "webhook_signature_params_incomplete"
TAG_INVALID = "webhook_signature_tag_invalid"
ALG_NOT_ALLOWED = "webhook_signature_alg_not_allowed"
WINDOW_INVALID = "webhook_signature_window_invalid"
COMPONENTS_INCOMPLETE = "webhook_signature_components_incomplete"
KEY_UNKNOWN = "webhook_signature_key_unknown"
KEY_PURPOSE_INVALID = "webhook_signature_key_purpose_invalid"
KEY_REVOKED = "webhook_signature_key_revoked"
REVOCATION_STALE = "webhook_signature_revocation_stale"
INVALID = "webhook_signature_invalid"
DIGEST_MISMATCH = "webhook_signature_digest_mismatch"
BODY_MALFORMED = "webhook_body_malformed"
TARGET_URI_MALFORMED = "webhook_target_uri_malformed"
REPLAYED = "webhook_signature_replayed"
RATE_ABUSE = "webhook_signature_rate_abuse"
MODE_MISMATCH = "webhook_mode_mismatch"


class SignatureError(Exception):
    """A webhook that is not proven to come from its seller: answer 401, log it, change nothing.

    `code` is one of the taxonomy, and goes into `WWW-Authenticate: Signature error="<code>"`; `step` is the
    step of the verifier's checklist (0 for the HMAC scheme). The text quotes nothing of the request.
    """

    def __init__(self, code: str, message: str, *, step: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.step = step


def mode_mismatch(registered: str, received: str) -> SignatureError:
    """A webhook signed in another way than its registration asked for: refuse and raise the alarm."""
    return SignatureError(MODE_MISMATCH, f"registered for {registered}, received: {received}")
