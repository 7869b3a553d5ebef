"""Who may ask for what: every address of the site, with the roles that are let in by GET and by POST.

Letters are those of walk.ROLES: Buyer, Approver, ad Ops, Finance, aUditor, Integration, aDministrator; x is
who is not signed in. To be let in by POST is to reach the form or the service: what each action then takes is
in actions.py. PUT, PATCH and DELETE are nobody's: they change nothing anywhere, and show at most what
GET and POST show.
"""

from __future__ import annotations

STAFF, PEOPLE = "BAOFUD", "BAOFUID"  # may use the admin; may use the API too
DECIDERS = "AD"
OPS, OPERATORS = "OUD", "OD"  # see what operators see; do it
ALL = "BAOFUIDx"

Methods = dict[str, str]


def _rows(
    model: str, sees: str, *, listed: str = "", change: str = "", add: str = "", delete: str = ""
) -> dict[str, Methods]:
    """The addresses of one model in the admin. `sees`: its list, pages and history; `listed`: may post to the
    list; `change`, `add`, `delete`: may use that form."""
    return {
        f"admin:{model}_changelist": {"GET": sees, "POST": listed},
        f"admin:{model}_change": {"GET": sees, "POST": change},
        f"admin:{model}_history": {"GET": sees, "POST": sees},
        f"admin:{model}_add": {"GET": add, "POST": add},
        f"admin:{model}_delete": {"GET": delete, "POST": delete},
        # Django's own: leads to the page, which judges.
        f"admin/{'/'.join(model.rsplit('_', 1))}/<path:object_id>/": {"GET": STAFF, "POST": STAFF},
    }


def _desk(model: str, sees: str, *, csv: bool = True, **acts: str) -> dict[str, Methods]:
    """The addresses of a model whose list is ours: those of any, with filters of one's own, and itself as CSV
    where there is something to take away."""
    return {
        **_rows(model, sees, **acts),
        f"admin:{model}_export": {"GET": sees if csv else ""},
        f"admin:{model}_filters": {"POST": sees},
    }


def _live(page: str) -> dict[str, Methods]:
    """What a page that changes by itself asks for."""
    return {f"admin:{page}_{what}": {"GET": STAFF, "POST": STAFF} for what in ("live", "changes")}


def _api(
    room: str, *, reads: str = "", steps: str = "", acts: dict[str, str] | None = None
) -> dict[str, Methods]:
    """The addresses of one room of the API: who `reads` its rows, `steps` names more of what is read, `acts`
    says who may; `list` is what is posted to the list."""
    acts = dict(acts or {})
    found = {f"{room}-list": {"GET": reads, "POST": acts.pop("list", "")}}
    found |= {f"{room}-{name}": {"GET": reads} for name in ("detail", *steps.split())}
    return found | {f"{room}-{name}": {"POST": who} for name, who in acts.items()}


EXPECTED: dict[str, Methods] = {
    "": {"GET": ALL, "POST": ALL},  # leads to the admin
    "schema": {"GET": ALL},
    "api_docs": {"GET": ALL},
    # The frame of the admin, and one's own account.
    "admin:index": {"GET": STAFF, "POST": STAFF},
    "admin:login": {"GET": "Ix", "POST": ALL},  # who is in is led on
    "admin:logout": {"POST": STAFF},
    "admin:password_change": {"GET": STAFF, "POST": STAFF},
    "admin_password_reset": {"GET": ALL, "POST": ALL},
    "first_administrator": {"GET": ALL, "POST": ALL},
    "password_set": {"GET": ALL, "POST": ALL},
    "admin:password_change_done": {"GET": STAFF},
    "admin:search": {"GET": STAFF, "POST": STAFF},
    "admin:app_list": {"GET": STAFF, "POST": STAFF},
    "admin:jsi18n": {"GET": STAFF},
    "admin:autocomplete": {},
    "admin:view_on_site": {},
    "admin/(?P<url>.*)$": {},
    "bell": {"GET": ALL},  # who is not of the staff is told nothing
    "find": {"GET": STAFF},
    # The assistant's panel; turns and proposals are their asker's, here an Administrator.
    "assistant_conversation": {"GET": STAFF},
    "assistant_ask": {"POST": STAFF},
    "assistant_turn": {"GET": "D"},
    "assistant_stop": {"POST": "D"},
    "assistant_proposal": {"POST": "D"},
    "explain_card": {"GET": STAFF},
    "account": {"GET": STAFF, "POST": STAFF},
    "second_factor": {},  # asked for only where it is due
    "second_factor_new": {"GET": STAFF, "POST": STAFF},
    "trail_csv": {"GET": STAFF},
    "trail_jsonl": {"GET": STAFF},
    # Buying.
    **_desk("campaigns_campaign", STAFF, listed=STAFF, change=STAFF),
    "admin:campaign_submit": {"GET": "BD", "POST": "BD"},
    "admin:campaign_submit_text": {"GET": "BD", "POST": "BD"},
    "admin:campaign_draft": {"POST": "BD"},
    "admin:campaign_draft_discard": {"POST": "BD"},
    **_live("campaign"),
    **_desk("orders_deal", STAFF, listed=STAFF, change=STAFF),
    **_live("deal"),
    "commitments": {"GET": STAFF, "POST": STAFF},
    "calendar_feed_own": {"GET": STAFF, "POST": STAFF},
    **_desk("tasks_app_approval", STAFF, change=STAFF),
    "admin:tasks_app_approval_preview": {"GET": STAFF, "POST": STAFF},
    "admin:tasks_app_approval_report": {"GET": "A", "POST": "A"},  # whose decisions they were
    "approval_link": {"GET": STAFF},  # leads to the queue where it is no link of theirs
    **_desk("tasks_app_delegation", DECIDERS, csv=False, listed=DECIDERS),
    "admin:tasks_app_delegation_change": {"GET": STAFF, "POST": STAFF},  # leads to the list
    **_desk("tasks_app_approvalpolicy", STAFF, listed=STAFF, change="D", add="D"),
    "admin:tasks_app_approvalpolicy_words": {"POST": "D"},
    **_desk("tasks_app_exchangerate", STAFF, listed=STAFF, add="D"),
    **_desk("tasks_app_seller", STAFF, listed=STAFF, change=OPERATORS, add=OPERATORS),
    "admin:tasks_app_seller_ready": {"GET": STAFF},
    **_desk("tasks_app_account", STAFF, listed=STAFF, change="D", add="D"),
    **_desk("tasks_app_notification", STAFF, csv=False, listed=STAFF, change=STAFF),
    **_desk("tasks_app_teamwebhook", "D", csv=False, listed="D"),
    "admin:tasks_app_teamwebhook_change": {"GET": STAFF, "POST": STAFF},  # leads to the list
    # Operations.
    **_desk("tasks_app_operation", STAFF, change=OPERATORS),
    **_desk("tasks_app_conflict", STAFF, change=STAFF),
    **_desk("tasks_app_job", STAFF, listed=STAFF, change=STAFF),
    "admin:tasks_app_job_live": {"GET": STAFF, "POST": STAFF},
    "admin:tasks_app_job_bulk": {"GET": OPERATORS, "POST": OPERATORS},
    **_desk("tasks_app_schedule", STAFF, listed=STAFF, change=STAFF, add=OPERATORS),
    **_desk("tasks_app_command", OPS, listed=OPS),
    **_desk("tasks_app_killswitch", OPS, listed=OPS, add="D"),
    **_desk("tasks_app_eventdelivery", OPS, listed=OPS, change=OPERATORS),
    **_desk("tasks_app_webhookdelivery", OPS, listed=OPS),
    **_desk("tasks_app_rowtrouble", OPERATORS, listed=OPERATORS),
    **_desk("tasks_app_reconciliationfinding", OPS, listed=OPS, change=OPS),
    **_desk("tasks_app_reconciliationrun", OPS, listed=OPS),
    "admin:reconcile_now": {"POST": OPERATORS},
    # Records and people.
    **_desk("tasks_app_auditentry", STAFF),
    **_desk("tasks_app_securityevent", "UD", listed="UD"),
    **_desk("tasks_app_assistantturn", "UD"),
    "admin:tasks_app_assistantturn_changelist": {"GET": STAFF, "POST": STAFF},
    "admin:tasks_app_assistantturn_export": {"GET": STAFF},
    "admin:tasks_app_assistantturn_filters": {"POST": STAFF},
    **_desk("tasks_app_assistantmode", "D", listed="D", add="D"),
    "admin:assistant_test": {"POST": "D"},
    **_desk("tasks_app_user", "UD", listed="UD", change="D", add="D"),
    **_desk("tasks_app_house", "UD", listed="UD", change="D", add="D"),
    "admin:tasks_app_house_add": {"POST": "D"},  # the form says that the house has its name
    **_desk("tasks_app_team", "UD", listed="UD", change="D", add="D"),
    **_desk("tasks_app_advertiser", "UD", listed="UD", change="D", add="D"),
    # The API.
    "search": {"GET": PEOPLE},
    "explain": {"GET": PEOPLE},
    **_api("campaign", reads=PEOPLE, acts={"list": "BID", "decide": "AD"}),
    **_api("deal", reads=PEOPLE),
    **_api(
        "approval",
        reads=PEOPLE,
        acts={
            **dict.fromkeys(("decide", "decide-many", "claim", "release", "reassign"), DECIDERS),
            "comment": PEOPLE,
        },
    ),
    "approval-report": {"GET": "A"},  # whose decisions they were
    **_api("delegation", reads=DECIDERS, acts=dict.fromkeys(("list", "end"), DECIDERS)),
    **_api(
        "operation",
        reads=PEOPLE,
        acts={
            **dict.fromkeys(("list", "withdraw"), "ID"),
            **dict.fromkeys(("answer", "correct", "poll", "resend", "settle", "stop", "write"), OPERATORS),
        },
    ),
    **_api("conflict", reads=PEOPLE, acts={"ask": OPERATORS}),
    **_api("command", reads=OPS),
    "kill-switch-list": {"GET": OPS, "POST": "D"},
    **_api(
        "job",
        reads=PEOPLE,
        steps="events graph steps",
        acts=dict.fromkeys(("cancel", "give", "hide", "priority", "resume", "retry", "skip"), OPERATORS),
    ),
    "jobs-bulk": {"POST": OPERATORS},
    **_api(
        "schedule",
        reads=PEOPLE,
        acts=dict.fromkeys(("list", "pause", "resume", "run"), OPERATORS),
    ),
    **_api("outside-event", reads=PEOPLE, acts={"list": "OID"}),
    **_api("notification", reads=PEOPLE, acts={"read": PEOPLE}),
    **_api("assistant-session", reads="D", acts={"restore": "D", "turns": "D"}),
    "assistant-session-list": {"GET": STAFF, "POST": STAFF},
    **{f"assistant-turn-{name}": {"GET": "D"} for name in ("detail", "events")},
    "assistant-turn-stop": {"POST": "D"},
    "assistant-proposal-detail": {"GET": "D"},
    **{f"assistant-proposal-{act}": {"POST": "D"} for act in ("confirm", "dismiss")},
    "assistant-mode-list": {"GET": "D", "POST": "D"},
}
# Who asks proves it otherwise, or need not: tests/webhooks, tests/config, tests/ui/test_calendar.py.
OWN_PROOF = {"adcp_webhook", "calendar_feed", "health", "metrics"}
# Rows that belong to no team, and those that belong to a team and none of its advertisers.
COMMON = {
    "everybody's": {
        "tasks_app.advertiser",
        "tasks_app.assistantmode",
        "tasks_app.delegation",
        "tasks_app.exchangerate",
        "tasks_app.house",
        "tasks_app.reconciliationrun",
        "tasks_app.securityevent",
        "tasks_app.seller",
        "tasks_app.team",
        "tasks_app.user",
        "tasks_app.webhookdelivery",  # one that is about no operation
    },
    "by team alone": {"tasks_app.killswitch", "tasks_app.schedule", "tasks_app.teamwebhook"},
}
