"""What the product makes of a stranger's body, by module and name: for test_linear.py.

OF_A_BODY says how each transformation is tried; those that are given something and are not tried
stand in of_fields.py, by why not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from types import ModuleType
from typing import Any, get_args

from campaigns import recommend
from campaigns.brief import Brief, brief_validate
from orders import confirmation, offers
from orders.models import Deal, DealLine
from orders.terms import compare, matching, stated, targeting
from orders.terms.terms import approved_terms
from tasks_app import canonical as digests
from tasks_app.adcp import (
    account_keys,
    answers,
    capabilities,
    envelopes,
    errors,
    extraction,
    hygiene,
    meaning,
    optional,
    plain_words,
    strict_json,
    tasks,
    told,
    values,
    webhook_body,
)
from tasks_app.adcp.signatures import SignatureError
from tasks_app.adcp.types import Seen
from tasks_app.approvals import changes, plain
from tasks_app.desk import terms
from tasks_app.jobs import shown, templates
from tasks_app.operations import canonical, differences, partial
from tasks_app.operations import matching as correlation
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import diagnosis
from tests.campaigns.briefs import NOW, brief
from tests.unsaved import unsaved

Json = dict[str, Any]
SECRETS = ["a-secret-of-ours-0123456789", "another-0123456789-secret"]


def _webhook(body: Any) -> Json:
    said = {"idempotency_key": "whk-0123456789abcdef", "task_id": "t", "task_type": "create_media_buy"}
    end = {"status": "failed", "timestamp": "2026-11-21T06:00:00Z", "token": "abcdefgh"}
    return {**said, **end, "result": {"x": body, "errors": [body]}, "error": body, "context": {"x": body}}


def _record(body: Any) -> Json:
    """A task's record in one, in one more, with an MCP result in it."""
    told_of = _webhook(body)
    for _ in range(6):
        told_of = {**_webhook(body), "result": told_of, "payload": {"x": body}}
    return {**told_of, "result": {"content": [], "structuredContent": told_of}}


def _mcp(body: Any) -> Json:
    text = json.dumps({"x": body})
    return {"isError": True, "content": [{"type": "text", "text": text}], "structuredContent": {"x": body}}


def _a2a(body: Any) -> Json:
    parts = [{"data": {"x": body, "adcp_error": {"code": "X", "details": {"x": body}}}}, {"text": str(body)}]
    status = {"state": "failed", "message": {"parts": parts}}
    return {"id": "t", "contextId": "c", "status": status, "artifacts": [{"parts": parts}]}


def _seen(body: Any) -> Seen:
    return envelopes.seen_data({"status": "failed", "x": body, "errors": [body], "context": {"x": body}})


def _read(body: Any) -> Any:
    return webhook_body.read_webhook(_webhook(body), secrets=SECRETS)


def _told(body: Any) -> Any:
    found = changes.evidence_changes({"x": body}, {"x": _other(body), "y": body})
    return [(one.path, one.before, one.after) for one in found]


def _other(value: Any) -> Any:
    """The same with another value at every end."""
    if isinstance(value, dict):
        return {key: _other(inner) for key, inner in value.items()}
    return [_other(inner) for inner in value] if isinstance(value, list) else "other"


def _compared(body: Any) -> Any:
    said = _seen(body)
    return canonical.observation_digest(said, task_type="x", sent_context={"x": body})


_MOMENT = datetime(2026, 11, 21, 6, tzinfo=UTC)
_LINES = [
    unsaved(
        DealLine,
        position=n,
        product_id=f"p{n}",
        product_name="A",
        budget=Decimal(5),
        rate=Decimal(1),
        start_at=_MOMENT,
        end_at=_MOMENT,
    )
    for n in range(10)
]
_DEAL = Deal(currency="USD", start_at=_MOMENT, end_at=_MOMENT)


def _packages(body: Any) -> list[Any]:
    told = body if isinstance(body, list) else [body]
    return [one if isinstance(one, dict) else {"package_id": one, "budget": one} for one in told]


def _record_of_buy(body: Any) -> Json:
    dates = {"start_time": body, "end_time": body}
    return {"packages": _packages(body), "total_budget": body, "currency": body, "paused": body, **dates}


def _stated(body: Any) -> Any:
    return stated.stated_terms(_DEAL, _LINES, _record_of_buy(body), whole=True)


def _differing(body: Any) -> Any:
    return compare.differences(approved_terms(_DEAL, _LINES), _stated(body))


def _account(body: Any) -> Json:
    brand = {"domain": "brand.example", "brand_id": body, "countries": body}
    return {"account_id": "b", "name": body, "brand": brand, "operator": body, "operator_unit": body}


def _refused(body: Any) -> Seen:
    return envelopes.seen_data({"errors": [{"code": "INVALID_REQUEST", "message": json.dumps(body)}]})


def _product(body: Any) -> Json:
    several = [{"product_id": "p", "pricing_option_id": "o", **one} for one in _packages(body)]
    named = ("publisher_properties", "format_options", "included_signals", "allowed_actions")
    dates = {"expires_at": body, "channels": body, "format_ids": body, "enforced_policies": body}
    policy = {
        "notice_period": {"interval": body, "unit": body},
        "cancellation_fee": {"type": body, "rate": body},
    }
    return {
        "product_id": "p",
        "pricing_options": several,
        **dict.fromkeys(named, several),
        **dates,
        "forecast": {"points": several, "method": body},
        "cancellation_policy": policy,
    }


def _wanted() -> Brief:
    stated = {"channels": ["olv", "ctv"], "formats": ["video_hosted"], "measurement": ["viewability"]}
    found, _ = brief_validate(brief(**stated), now=NOW)
    assert found is not None
    return found


def _recommended(body: Any) -> Any:
    shares = {"olv": Decimal(1000), "ctv": Decimal(1000)}
    products = [{**_product(body), "channels": ["olv", body]}]
    picks, passed = recommend.pick(_wanted(), shares, offers.offers(_SELLER, products, {}), now=NOW)
    return [one.matches for one in picks], [vars(one) for one in passed]


def _bought(body: Any) -> Json:
    named = ("media_buy_id", "status", "status_as_of", "valid_actions", "confirmed_at", "creative_deadline")
    return {**dict.fromkeys(named, body), "revision": body, "packages": _packages(body)}


def _forecast(body: Any) -> Json:
    point = {"budget": body, "metrics": {"clicks": {"low": body, "mid": body, "high": body}, "x": body}}
    said = {"method": body, "measurement_source": body, "demographic": body}
    return {"points": [point, *_packages(body)], "currency": body, **said}


_SELLER = unsaved(Seller, name="Norrland", slug="norrland")
_MODE, _SECRETS = Seller.WebhookMode.HMAC, {"webhook_secret": "s" * 40, "webhook_secret_previous": "p" * 40}
_SIGNS = unsaved(Seller, slug="signs", webhook_mode=_MODE, **_SECRETS)
_SIGNED = {"x-adcp-signature": f"sha256={'0' * 64}", "x-adcp-timestamp": "1795000000"}
_INVALID = SignatureError("webhook_signature_invalid", "It does not verify")
_ENDED = unsaved(Operation, task_id="t", status="completed", result={"media_buy_id": "mb-1"}, request={})

# By module and name. What takes no body, or no more than a word of it, is None.
OF_A_BODY: dict[tuple[ModuleType, str], Callable[[Any], Any] | None] = {
    (hygiene, "clean"): lambda body: hygiene.clean(body, SECRETS),
    (hygiene, "integral"): hygiene.integral,
    (hygiene, "identified"): lambda body: hygiene.identified({"x_id": body, "x_ids": [body], "x": body}),
    (hygiene, "token_matches"): None,
    (diagnosis, "tried_words"): lambda body: diagnosis.tried_words(
        _SIGNS, _SIGNED, json.dumps({"x": body}).encode(), _INVALID, now=_MOMENT
    ),
    (diagnosis, "instead_words"): None,
    (strict_json, "parse_object"): lambda body: strict_json.parse_object(json.dumps({"x": body})),
    (strict_json, "parse_typed"): None,  # the same, of less
    (strict_json, "sanitise_names"): lambda body: strict_json.sanitise_names([json.dumps(body)] * 2),
    (extraction, "mcp_data"): lambda body: extraction.mcp_data({**_mcp(body), "isError": False}),
    (extraction, "mcp_error"): lambda body: extraction.mcp_error(_mcp(body)),
    (extraction, "mcp_object"): lambda body: extraction.mcp_object(_mcp(body)),
    (extraction, "mcp_text"): lambda body: extraction.mcp_text(_mcp(body)),
    (extraction, "rpc_adcp_error"): lambda body: extraction.rpc_adcp_error(
        {"data": {"adcp_error": {"code": "X", "x": body}}}
    ),
    (extraction, "a2a_task"): lambda body: extraction.a2a_task(_a2a(body)),
    (extraction, "a2a_state"): lambda body: extraction.a2a_state(_a2a(body)),
    (extraction, "a2a_data"): lambda body: extraction.a2a_data(_a2a(body)),
    (extraction, "a2a_error"): lambda body: extraction.a2a_error(_a2a(body)),
    (extraction, "a2a_text"): lambda body: extraction.a2a_text(_a2a(body)),
    (extraction, "webhook_format"): lambda body: extraction.webhook_format(_webhook(body)),
    (extraction, "webhook_data"): lambda body: extraction.webhook_data(_webhook(body)),
    (envelopes, "seen_mcp"): lambda body: envelopes.seen_mcp(_mcp(body), secrets=SECRETS),
    (envelopes, "seen_a2a"): lambda body: envelopes.seen_a2a(_a2a(body), secrets=SECRETS),
    (envelopes, "seen_rpc_error"): lambda body: envelopes.seen_rpc_error({"code": 1, "data": {"x": body}}),
    (envelopes, "seen_data"): _seen,
    (answers, "read_answer"): lambda body: [
        answers.read_answer(told.Carried(data=_webhook(body), raw={}), about=about)
        for about in get_args(meaning.About)
    ],
    (answers, "read_bought"): lambda body: answers.read_bought({"media_buy_id": "m", "x": body}),
    (answers, "read_progress"): lambda body: answers.read_progress({"progress": {"current_step": body}}),
    (answers, "is_partial"): None,
    (told, "unwrapped"): lambda body: told.unwrapped({"status": "failed", "payload": {"x": body}}),
    (told, "told_of"): None,
    (told, "facts_of"): lambda body: [
        str(told.facts_of(told.told_of(told.Carried(data=_record(body), raw={}), about, "")))
        for about in get_args(meaning.About)
    ],
    (meaning, "meaning"): None,
    (meaning, "plain_word"): lambda body: meaning.plain_word(json.dumps(body)),
    (meaning, "is_removed"): lambda body: meaning.is_removed(json.dumps(body)),
    (values, "text_of"): None,
    (values, "first_text"): lambda body: values.first_text({"message": json.dumps(body)}, ["message"]),
    (values, "identity_of"): lambda body: values.identity_of(json.dumps(body)),
    (values, "number_of"): None,
    (values, "whole_of"): None,
    (values, "boolean_of"): lambda body: values.boolean_of(json.dumps(body)),
    (values, "parse_time"): lambda body: values.parse_time(json.dumps(body)),
    (errors, "read_error"): lambda body: errors.read_error({"code": "X", "details": {"x": body}}),
    (errors, "read_errors"): lambda body: errors.read_errors([{"code": "X", "x": body}, body]),
    (errors, "is_valid_error"): lambda body: errors.is_valid_error({"code": "X", "x": body}),
    (errors, "told_error"): lambda body: errors.told_error([body, {"why": body}]),
    (errors, "recovery_for"): None,
    (errors, "clamp_retry_after"): None,
    (tasks, "is_status_tool"): None,  # of a name that a person gives
    (tasks, "task_item"): lambda body: tasks.task_item({"task_id": "t", "status": "working", "x": body}),
    (tasks, "cursor_of"): None,
    (tasks, "told_beside"): lambda body: tasks.told_beside({"errors": body}),
    (tasks, "next_cursor"): lambda body: tasks.next_cursor(_seen(body)),
    (tasks, "listed_of"): lambda body: tasks.listed_of("completed", {"tasks": [body]}, "tasks"),
    (tasks, "task_status_tool"): None,
    (tasks, "tool_offered"): None,
    (tasks, "task_list_tool"): None,
    (tasks, "task_status_arguments"): None,
    (webhook_body, "read_webhook"): _read,
    (webhook_body, "read_identity"): lambda body: webhook_body.read_identity(_webhook(body)),
    (webhook_body, "from_event"): lambda body: webhook_body.from_event(_webhook(body)),
    (optional, "shaped"): lambda body: optional.shaped("get_products", {"x": body}, {"y": body}, []),
    (optional, "lesson"): lambda body: str(
        optional.lesson("get_media_buys", {"account": 1}, ["account"], _refused(body), [])
    ),
    (optional, "tool_of"): None,
    (optional, "merged"): None,
    (plain_words, "refusal_in_words"): lambda body: str(plain_words.refusal_in_words(json.dumps(body))),
    (plain_words, "refusal_status"): None,
    (matching, "packages_of"): lambda body: matching.packages_of({"packages": _packages(body)}),
    (matching, "is_cancelled"): lambda body: matching.is_cancelled({"canceled": json.dumps(body)}),
    (matching, "excess_packages"): lambda body: matching.excess_packages({"packages": _packages(body)}),
    (matching, "names_packages"): lambda body: matching.names_packages({"packages": _packages(body)}),
    (matching, "match_packages"): lambda body: matching.match_packages(_LINES, _packages(body)).packages,
    (matching, "is_unallocated"): None,  # of a line
    (stated, "stated_terms"): lambda body: str(_stated(body)),
    (stated, "is_canceled"): lambda body: stated.is_canceled({"packages": _packages(body)}, _LINES),
    (stated, "is_paused"): lambda body: stated.is_paused({"paused": body, "status": str(body)}),
    (stated, "status_of"): None,  # looks at single fields
    (stated, "answer_as_record"): None,
    (compare, "differences"): _differing,
    (compare, "unreadable_values"): lambda body: compare.unreadable_values(_differing(body)),
    (compare, "term_text"): compare.term_text,
    (compare, "sorted_differences"): None,
    (recommend, "pick"): _recommended,
    (recommend, "matches"): lambda body: [
        recommend.matches(_wanted(), offer.product, "olv")
        for offer in offers.offers(_SELLER, [_product(body)], {})
    ][:1],
    (recommend, "unfit"): lambda body: [
        recommend.unfit(_wanted(), offer, Decimal(1000), now=NOW)
        for offer in offers.offers(_SELLER, [_product(body)], {})
    ],
    (recommend, "passed_unread"): None,  # what is left out is cut
    (recommend, "products_wanted"): None,  # of a brief
    (targeting, "stated_targeting"): lambda body: targeting.stated_targeting(
        {"targeting_overlay": body}, None, whole=True
    ),
    (targeting, "is_the_same"): lambda body: targeting.is_the_same({"x": body}, {"x": _other(body)}),
    (targeting, "is_targeted"): lambda body: targeting.is_targeted({"x": body}, {"x": body}, ["x"]),
    (targeting, "targeting_after"): None,  # of our own request
    (account_keys, "names_more"): None,
    (account_keys, "account_key"): lambda body: str(account_keys.account_key(_account(body))),
    (account_keys, "natural_reference"): None,
    (account_keys, "account_in"): lambda body: account_keys.account_in(
        [_account(one) for one in _packages(body)], {"account_id": "a"}
    ),
    (account_keys, "other_brand"): lambda body: account_keys.other_brand(_account(body), "brand.example"),
    (account_keys, "other_account"): lambda body: account_keys.other_account(
        _account(body), {"account_id": "acc-ours"}
    ),
    (account_keys, "account_stated"): lambda body: str(account_keys.account_stated(_account(body))),
    (account_keys, "account_name"): lambda body: account_keys.account_name(_account(body)),
    (capabilities, "negotiate"): lambda body: capabilities.negotiate(
        {"adcp": {"supported_versions": ["3.2", body, *_packages(body)]}}
    ),
    (capabilities, "version_named"): lambda body: capabilities.version_named(_seen(body)),
    (capabilities, "listed_versions"): lambda body: capabilities.listed_versions(
        {"adcp": {"supported_versions": body}}
    ),
    (capabilities, "names_kept"): lambda body: capabilities.names_kept([str(one) for one in _packages(body)]),
    (capabilities, "regions_not_targeted"): lambda body: capabilities.regions_not_targeted(
        {"media_buy": {"execution": {"targeting": {"geo_regions": {"countries": {"US": {"values": body}}}}}}},
        ["US-IL", "US-WI"],
    ),
    (capabilities, "lets_choose_regions"): lambda body: capabilities.lets_choose_regions(
        {"overlay_support": {"geo_regions": {"countries": {"US": {"values": body}}}}}, ["US-IL", "US-WI"]
    ),
    (capabilities, "read_capabilities"): lambda body: str(
        capabilities.read_capabilities(
            {"account": body, "media_buy": body, "x": body},
            tools=frozenset(),
            agent_name="",
            quirks=frozenset(),
            version="3.2",
        )
    ),
    (digests, "canonical_digest"): digests.canonical_digest,
    (canonical, "observation_digest"): _compared,
    (differences, "fields_beside"): lambda body: differences.fields_beside(
        {"x": body}, {"x": _other(body), "y": body}
    ),
    (changes, "evidence_changes"): _told,
    (plain, "as_text"): plain.as_text,
    (plain, "shortened"): lambda body: plain.shortened(str(body), 80),
    (shown, "shown"): shown.shown,
    (shown, "fits"): shown.fits,
    (templates, "resolve"): lambda body: templates.resolve(
        {"a": "{{ inputs.x }}", "b": "{{ [inputs.x, inputs.x] }}"}, {"inputs": {"x": body}}
    ),
    (confirmation, "mirror"): lambda body: str(confirmation.mirror(_bought(body))),
    (confirmation, "values_unread"): lambda body: confirmation.values_unread({}, _bought(body)),
    (confirmation, "stated_at"): lambda body: str(confirmation.stated_at(_bought(body))),
    (confirmation, "is_ended_early"): lambda body: confirmation.is_ended_early(Deal(start_at=_MOMENT), body),
    **{(confirmation, name): None for name in ("record_confirmed", "save_confirmed", "unconfirm")},
    **{(confirmation, name): None for name in ("confirmed_gross", "stated_amount")},  # of terms, as stated
    (offers, "offers"): lambda body: len(list(offers.offers(_SELLER, [_product(body)], {}))),
    (offers, "left_out"): lambda body: [one.why for one in offers.left_out(_SELLER, _packages(body))],
    (offers, "channels_asked"): None,  # of our own request
    (offers, "forecast_of"): lambda body: offers.forecast_of(_product(body)),
    (offers, "terms_of"): lambda body: offers.terms_of(_product(body), None),
    (terms, "rate_basis"): None,
    (terms, "units_word"): None,
    (terms, "forecast"): lambda body: terms.forecast(_forecast(body), None, "USD"),
    (terms, "forecast_source"): lambda body: terms.forecast_source(_forecast(body)),
    (terms, "cancellation"): lambda body: terms.cancellation(_product(body)["cancellation_policy"], "USD"),
    (terms, "cancellation_fee"): lambda body: terms.cancellation_fee(
        _product(body)["cancellation_policy"], "USD"
    ),
    (terms, "last_free"): lambda body: str(
        terms.last_free(_product(body)["cancellation_policy"], _MOMENT, "UTC")
    ),
    (terms, "measurement"): lambda body: terms.measurement(
        {"billing_measurement": {"vendor": {"domain": body}, "max_variance_percent": body}}
    ),
    (terms, "makegood"): lambda body: terms.makegood({"makegood_policy": {"available_remedies": body}}),
    (terms, "targeting"): lambda body: terms.targeting({"geo_countries": body, "x": body}),
    (terms, "invoiced"): None,
    (terms, "payment"): None,
    (terms, "once"): None,
    (terms, "by_channel"): None,
    (partial, "held"): lambda body: str(partial.held(_ENDED, _seen(body))),
    (partial, "look_again"): None,
    (partial, "agrees"): lambda body: partial.agrees(_ENDED, _seen(body)),
    (correlation, "mismatch"): lambda body: correlation.mismatch(_ENDED, _seen(body)),
    (correlation, "task_changed"): None,
    (correlation, "unusable_task"): None,  # measures the task's name and looks it up
    (correlation, "identities"): lambda body: correlation.identities(_ENDED, _seen(body)),
}
