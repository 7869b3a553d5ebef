"""Every form of every page, by enumeration: what shows values of a row carries what they were drawn from.

That an old one changes nothing is tried in test_drawn_forms.py. Here are all the forms that templates draw,
all that the code declares and all addresses that take a POST; each is one of those, or says why it is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django import forms
from django.conf import settings
from django.contrib import admin
from django.urls import reverse

from tasks_app.desk.drawn import DrawnForm
from tests.ui import test_drawn_forms
from tests.ui.matrix import EXPECTED

ROOMS = ("tasks_app", "orders", "campaigns", "config", "demo")
# Forms that carry what they were drawn from, by template: by which field, and what tries an old one.
CARRYING = {
    "desk/approval_amend.html": ["digest"],
    "desk/approval_decision.html": ["digest"],
    "desk/approval_together.html": ["digest"],
    "desk/approvals.html": ["also"],  # each with its digest
    "desk/approvals_confirm.html": ["also"],
    "desk/conflicts.html": ["digest"],
    "desk/kill_switch.html": ["drawn_from"],
    "desk/list_tools.html": ["drawn_from"],
    "desk/operation_pause.html": ["generation"],
    "desk/policy.html": ["version"],
    "desk/schedule.html": ["drawn_from"],
    "desk/seller_settings.html": ["drawn_from", "drawn_from", "shown"],
    "desk/seller_waiting.html": ["shown"],
    "desk/team_webhooks.html": ["drawn_from"],
}
TRIED = {
    "desk/kill_switch.html": {"kill_switch"},
    "desk/list_tools.html": {"saved_filter", "saved_filter_deleted"},
    "desk/policy.html": {"policy"},
    "desk/schedule.html": {"schedule"},
    "desk/seller_settings.html": {"seller", "sellers_timing", "rotated"},
    "desk/seller_waiting.html": {"seller_withdrawn", "account_withdrawn"},
    "desk/team_webhooks.html": {"team_webhook"},
}
# Forms that hold no value of a row: how many a template has, and what they do.
ACTS = {
    "assistant/administration.html": (1, "asks the endpoint one question"),
    "assistant/mode_form.html": (1, "a new setting each time; the newest holds"),
    "desk/account.html": (3, "ends sessions; makes recovery codes or takes the second factor off, by a code"),
    "desk/account_head.html": (2, "keeps an account off; asks for it again"),
    "desk/act_form.html": (1, "an act with its reason, from the state it has then"),
    "desk/approval_hand.html": (3, "takes, lets go or hands on a question, from the state it has then"),
    "desk/approval_thread.html": (1, "adds a comment"),
    "desk/approvals.html": (1, "takes a question"),
    "desk/approvals_undo.html": (1, "withdraws an intent that is not yet done"),
    "desk/calendar_feed.html": (1, "makes a new address, or revokes"),
    "desk/brief_beside.html": (1, "discards a draft"),
    "desk/brief_form.html": (1, "a new one, once by its token"),
    "desk/brief_text.html": (1, "a new one, once by its token"),
    "desk/deal_live.html": (1, "asks for a read"),
    "desk/delegations.html": (2, "ends one; makes one"),
    "desk/event_delivery.html": (1, "tries it again"),
    "desk/finding.html": (1, "repairs it, from the state it has then"),
    "desk/findings_head.html": (1, "asks for a run"),
    "desk/first_administrator.html": (1, "makes the first login, by a link that works once"),
    "desk/job_steer.html": (4, "steers a job, from the state it has then"),
    "desk/job_step.html": (3, "steers a step, from the state it has then"),
    "desk/jobs_bulk.html": (1, "steers jobs, each from the state it has then"),
    "desk/kill_switch.html": (1, "stops: never too late"),
    "desk/list_tools.html": (1, "keeps the list's present filter under a name"),
    "desk/notification_row.html": (1, "reads"),
    "desk/notifications.html": (2, "reads; turns one's own mails on or off, as its button says"),
    "desk/operation.html": (1, "asks for a look"),
    "desk/operation_steer.html": (5, "steers an operation, from the state it has then"),
    "desk/operations.html": (1, "asks for a look"),
    "desk/account_tokens.html": (2, "makes a token; revokes one"),
    "desk/password_reset.html": (1, "asks for a link"),
    "desk/password_set.html": (1, "sets a password, by a link that works once"),
    "desk/people_end.html": (1, "ends sessions"),
    "desk/schedule.html": (1, "runs, pauses or goes on"),
    "desk/second_factor.html": (2, "proves who it is; signs out"),
    "desk/second_factor_new.html": (2, "proves who it is; signs out"),
    "desk/seller.html": (1, "forgets what was learnt, by its name"),
    "desk/seller_account_request.html": (1, "asks for an account; refused while one is asked for"),
    "desk/seller_add.html": (1, "a new one; refused for a name that is taken"),
    "desk/team_webhooks.html": (1, "sends a trial"),
}
# Form classes of no row: a new one each time.
NEW = {
    **dict.fromkeys(("BriefFields", "CeilingRow", "ChannelRow", "CountryRow", "SellerRow"), "a new campaign"),
    "ModeForm": "each is a new row, and the newest holds",
    "PolicyForm": "a new version each time, which names the one before (test_drawn_forms.py: policy)",
    "RateForm": "each is a new row",
    "MembershipForm": "a line of the person's form, which is drawn from the seats too",
    "TokenForm": "each is a new row",
    "_MailForm": "what the person's forms share; and a link is asked for",
    "NewPersonForm": "each is a new row",
    "_FirstAdministratorForm": "a new row",
    "AgentForm": "what the seller's forms share",
    "NewSellerForm": "each is a new row",
    "AccountRequestForm": "each is a new request",
    "TextForm": "what the parts of a brief share",
    "_RoleForm": "what the person's forms share",
    "_TurnForm": "each is a new row, which names the turn before (test_drawn_forms.py: kill_switch)",
    "_Zoned": "what the person's forms share",
}
# Addresses besides the models' own that take a POST from people: the form's template, or what it does.
POSTED = {
    "": "leads on",
    "account": "desk/account.html",
    "admin:app_list": "changes nothing",
    "admin:assistant_test": "changes nothing",
    "admin_password_reset": "asks for a link",
    "admin:campaign_draft": "changes nothing but one's own draft",
    "admin:campaign_draft_discard": "desk/brief_beside.html",
    "admin:campaign_submit": "desk/brief_form.html",
    "admin:campaign_submit_text": "desk/brief_text.html",
    "admin:index": "changes nothing",
    "admin:login": "who it is, alone",
    "admin:logout": "nothing is sent",
    "admin:password_change": "the new password alone, by the old one",
    "admin:reconcile_now": "desk/findings_head.html",
    "admin:search": "changes nothing",
    "admin:tasks_app_approval_preview": "changes nothing",
    "admin:tasks_app_approval_report": "desk/approvals_undo.html",
    "admin:tasks_app_approvalpolicy_words": "changes nothing",
    "admin:tasks_app_job_bulk": "desk/jobs_bulk.html",
    "assistant_ask": "a new question",
    "assistant_proposal": "decides once: a decided proposal is refused",
    "assistant_stop": "ends a turn that runs",
    "calendar_feed_own": "desk/calendar_feed.html",
    "commitments": "changes nothing",
    "first_administrator": "desk/first_administrator.html",
    "password_set": "the new password alone, by a link that works once",
    "second_factor_new": "desk/second_factor_new.html",
}
_FORM = re.compile(r"<form\b([^>]*)>(.*?)</form>", re.S | re.I)
_CARRIED = re.compile(r'name="(drawn_from|shown|digest|version|generation|also)"|desk/(drawn_from)\.html')


def drawn_forms() -> Iterator[tuple[str, str]]:
    """(template, what it carries or nothing) of every form of ours that is posted."""
    folders = [Path(settings.BASE_DIR) / "templates", *Path(settings.BASE_DIR).glob("*/templates")]
    for folder in folders:
        for template in sorted(folder.rglob("*.html")):
            for attributes, body in _FORM.findall(template.read_text()):
                if re.search(r"method=\W?post", attributes, re.I):
                    carried = _CARRIED.search(body)
                    yield str(template.relative_to(folder)), carried[1] or carried[2] if carried else ""


@pytest.mark.rule
def test_every_form_of_a_template_carries_what_it_was_drawn_from_or_is_an_act() -> None:
    carrying: dict[str, list[str]] = {}
    acts: dict[str, int] = {}
    for template, carried in drawn_forms():
        if carried:
            carrying.setdefault(template, []).append(carried)
        else:
            acts[template] = acts.get(template, 0) + 1
    assert carrying == CARRYING
    assert acts == {template: count for template, (count, _) in ACTS.items()}


@pytest.mark.parametrize("template", sorted(CARRYING))
def test_an_old_one_of_each_is_tried(template: str) -> None:
    """Of a decision its digest: tests/approvals, tests/operations; of all others here."""
    tried = {made.__name__ for made in test_drawn_forms.EVERY}
    decides = set(CARRYING[template]) <= {"digest", "also", "generation"}
    assert decides or (TRIED.get(template) and TRIED[template] <= tried)


@pytest.mark.rule
def test_templates_alone_draw_forms() -> None:
    for room in ROOMS:
        for source in (Path(settings.BASE_DIR) / room).rglob("*.py"):
            assert "<form" not in source.read_text(), source


def test_every_form_of_a_row_is_a_drawn_form() -> None:
    assert reverse("account")  # every page's module is read by now
    ours = {one for one in _below(forms.BaseForm) if one.__module__.partition(".")[0] in ROOMS}
    assert {one.__name__ for one in ours if not issubclass(one, DrawnForm)} == set(NEW)


def test_every_address_that_takes_a_post_is_one_of_these() -> None:
    """The models' own are enumerated in test_drawn_forms.py; what shows itself live takes none of a form."""
    models = {test_drawn_forms.label(model).replace(".", "_") for model in admin.site._registry}
    own = {
        f"admin:{model}_{page}"
        for model in models
        for page in ("add", "change", "changelist", "delete", "filters", "history")
    }
    posted = {name for name, methods in EXPECTED.items() if methods.get("POST")}
    found = {
        name
        for name in posted - own
        if not name.endswith(("_live", "_changes", "/<path:object_id>/")) and not _is_of_the_api(name)
    }
    assert found == set(POSTED)
    assert {where for where in POSTED.values() if where.startswith("desk/")} <= set(ACTS)


def _is_of_the_api(name: str) -> bool:
    """What is sent there is what somebody asks for, not a page that somebody was shown."""
    return ":" not in name and "-" in name


def _below(of: type) -> Iterator[type]:
    for one in of.__subclasses__():
        yield one
        yield from _below(one)
