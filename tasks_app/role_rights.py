"""What the application's role may write in this storey's tables, and which owner's functions it calls.

The reasons stand in docs/audit-proof.md, too: a test compares.
"""

from __future__ import annotations

from tasks_app.database_rights import May, lifecycle_doors

# PostgreSQL lets only those lock a row who may update a column of it; this one moves with an entry alone.
LOCKED = "rows are locked before they move; a version that rises alone is refused at commit"

TABLES: dict[str, May] = {
    # Django's and other packages'.
    "auth_group": May(),
    "auth_group_permissions": May(),
    "auth_permission": May(),
    "axes_accessattempt": May(
        insert="failed sign-ins are counted",
        update="failed sign-ins are counted",
        delete="a lock-out ends, a count begins anew",
    ),
    "axes_accessattemptexpiration": May(
        insert="when a lock-out ends", update="when a lock-out ends", delete="it has ended"
    ),
    "axes_accessfailurelog": May(insert="failed sign-ins, beside the security log", delete="its oldest rows"),
    "axes_accesslog": May(
        insert="sign-ins, beside the security log",
        update="when they signed out",
        columns=("logout_time",),
        delete="as old as what the security log forgets",
    ),
    "django_admin_log": May(insert="what was changed in the admin"),
    "django_content_type": May(),
    "django_migrations": May(),
    "django_q_ormq": May(
        insert="wake-ups of workers", update="a worker holds one", delete="a wake-up was taken"
    ),
    "django_q_schedule": May(),
    "django_q_task": May(
        insert="what became of a wake-up", update="tried again", delete="only the latest are kept"
    ),
    "knox_authtoken": May(),  # empty: `ApiToken` stands in its place
    # The trail and its copies.
    "tasks_app_auditentry": May(),
    "tasks_app_import": May(insert="an import is recorded"),
    "tasks_app_lifecycleedge": May(),
    "tasks_app_lifecyclerule": May(insert="a guard is attached"),
    "tasks_app_outboxevent": May(),
    "tasks_app_fieldkey": May(insert="the key that a starting process encrypts with"),
    # People.
    "tasks_app_actor": May(
        insert="who acts", update="a name as it is now", columns=("key", "kind", "name", "user_id")
    ),
    "tasks_app_advertiser": May(insert="kept in the admin", update="kept in the admin"),
    "tasks_app_apitoken": May(
        insert="API tokens are made",
        update="when one runs out, and when it was used",
        columns=("expiry", "last_used_at"),
        delete="and revoked",
    ),
    "tasks_app_house": May(insert="kept in the admin", update="kept in the admin"),
    "tasks_app_loginsession": May(insert="sign-ins", update="last seen, second factor", delete="signed out"),
    "tasks_app_recoverycode": May(
        insert="made with a second factor", update="used once", columns=("used_at",), delete="made anew"
    ),
    "tasks_app_secondfactor": May(
        insert="set up", update="confirmed, wrong codes counted", delete="removed by its person, or reset"
    ),
    "tasks_app_securityevent": May(insert="what happened, at the server's time"),
    "tasks_app_team": May(insert="kept in the admin", update="kept in the admin"),
    "tasks_app_user": May(
        insert="kept in the admin, with an entry of the security log, never a superuser",
        update="kept in the admin, rights with an entry of the security log, never to a superuser",
    ),
    "tasks_app_user_groups": May(
        insert="a role is given, with an entry of the security log",
        delete="a role is taken, with an entry of the security log",
    ),
    "tasks_app_user_teams": May(
        insert="a person joins a team", update="what they see of it", delete="a person leaves it"
    ),
    "tasks_app_user_teams_advertisers": May(insert="an advertiser is given to a member", delete="and taken"),
    "tasks_app_user_user_permissions": May(),
    # Desk.
    "tasks_app_savedfilter": May(insert="a person's own", update="a person's own", delete="a person's own"),
    # The bus.
    "tasks_app_eventcount": May(),
    "tasks_app_eventdelivery": May(
        insert="an event that a subscriber has yet to take",
        update="tried again, or given up",
        columns=("attempts", "due_at", "gave_up_at", "error", "retried_by", "created_at"),
        delete="it was taken",
    ),
    "tasks_app_eventstream": May(update="when old events were last looked for", columns=("pruned_at",)),
    "tasks_app_eventsubscription": May(
        update="how far a subscriber is, never back", columns=("position", "in_hand_to")
    ),
    # Sellers.
    "tasks_app_account": May(
        insert="an account is opened, with an entry of the security log",
        update="the seller's word about it, or a person's, with an entry of the security log",
    ),
    "tasks_app_seller": May(
        insert="added or imported, with an entry of the security log",
        update="capabilities, health; what people change of it with an entry of the security log",
    ),
    "tasks_app_sellerbreaker": May(insert="a seller does not answer", update="it is probed, it answers"),
    "tasks_app_trustchange": May(
        insert="what decides whom we believe is to change",
        update="asked anew, applied or refused, its values forgotten",
        columns=("before", "round", "applied_at", "refused_at", "ended_by", "values"),
    ),
    # Notifications.
    "tasks_app_notification": May(insert="people are told"),
    "tasks_app_notificationmail": May(insert="it was mailed"),
    "tasks_app_notificationread": May(insert="it was read"),
    "tasks_app_teamwebhook": May(insert="a team's chat", update="its address; when it was last posted to"),
    "tasks_app_teamwebhooksent": May(insert="it was posted"),
    # Approvals.
    "tasks_app_approval": May(
        insert="a question, with its first entry",
        update=f"told, reminded, claimed; {LOCKED}",
        columns=(
            "version",
            "told_at",
            "reminded_at",
            "claimed_by",
            "claimed_until",
        ),
    ),
    "tasks_app_approvalescalation": May(insert="whom it was put to"),
    "tasks_app_approvalnote": May(insert="a thread's next line"),
    "tasks_app_approvalpolicy": May(insert="a policy's next version"),
    "tasks_app_decision": May(insert="a person's word, with its entry (asked at commit)"),
    "tasks_app_decisionbatch": May(
        insert="one word on several questions",
        update="undone, or all decided",
        columns=("withdrawn_at", "done_at"),
    ),
    "tasks_app_decisionbatchitem": May(insert="what became of each"),
    "tasks_app_delegation": May(
        insert="somebody is away", update="back early", columns=("ended_at", "ended_by")
    ),
    "tasks_app_exchangerate": May(insert="a day's rate"),
    "tasks_app_linkuse": May(insert="a mailed link was followed"),
    # Commands.
    "tasks_app_command": May(
        insert="an effect that is wanted",
        update="what became of it; at which gate it waits",
        columns=(
            "result",
            "executed_at",
            "refused_at",
            "refused_why",
            "replays",
            "waiting_since",
            "repeated",
            "awaited",
            "asked_at",
            "gate_round",
            "overrides",
        ),
    ),
    "tasks_app_commanddecision": May(insert="a decision about a command"),
    "tasks_app_killswitch": May(insert="a turn of the switch"),
    "tasks_app_outgoingmessage": May(insert="a message", update="that it was sent", columns=("sent_at",)),
    # Operations.
    "tasks_app_rowtrouble": May(
        insert="a row that could not be handled",
        update="how often, and when it is tried again",
        columns=("times", "error", "at", "again_at"),
        delete="it was handled",
    ),
    "tasks_app_sweepoutage": May(insert="no sweep was at work for a while"),
    "tasks_app_sweeppulse": May(insert="a sweep is at work", update="and still is", columns=("at",)),
    "tasks_app_calllease": May(
        insert="a call is out",
        update="still out; or another call in its place, as it ran out",
        columns=("call", "until"),
        delete="it is back",
    ),
    "tasks_app_conflict": May(
        insert="two ends that contradict each other, unresolved, or resolved at once because what "
        "came second is asked about by itself",
        update="what people decided, once, at the server's time; who is asked, how many more came",
        columns=(
            "resolution",
            "resolved_by",
            "resolved_at",
            "reason",
            "note",
            "asked_by",
            "asked_at",
            "more",
        ),
    ),
    "tasks_app_continuation": May(
        insert="how a paused task is answered",
        update="the answer, released where it was approved, dispatched, past",
        columns=(
            "request_text",
            "answer",
            "answered_by",
            "answered_at",
            "released_at",
            "dispatched_at",
            "deadline_at",
            "consumed_at",
            "stale_at",
            "note",
        ),
    ),
    "tasks_app_observation": May(insert="what was seen"),
    "tasks_app_operation": May(
        insert="a frozen request, with its first entry",
        update=f"what is known so far, what happens next; a result that is known stays; {LOCKED}",
        columns=(
            "version",
            "task_id",
            "context_id",
            "a2a_task_id",
            "a2a_context_id",
            "message",
            "result",
            "error",
            "seller_news_at",
            "settled_by",
            "settled_at",
            "sent_at",
            "published_at",
            "publish_at",
            "overdue_told_at",
            "looked_up_at",
            "send_at",
            "priority",
            "turn_at",
            "next_poll_at",
            "deadline_at",
            "attempts",
            "polls",
        ),
    ),
    # Reconciliation.
    "tasks_app_reconciliationfinding": May(
        insert="what differs", update="seen again, held, resolved, at the server's time"
    ),
    "tasks_app_reconciliationrun": May(
        insert="a run, asked for at the server's time",
        update="how far it is, and with whom",
        columns=(
            "state",
            "woken_at",
            "started_at",
            "ended_at",
            "only_id",
            "differ",
            "counts",
            "report",
            "error",
        ),
    ),
    # Webhooks.
    "tasks_app_seennonce": May(insert="a signature is taken once", delete="it could not be replayed"),
    "tasks_app_sellerkey": May(insert="a key that a seller has published"),
    "tasks_app_sellerrevocations": May(insert="a list that was read", update="read again"),
    "tasks_app_sendertally": May(insert="allowances", update="allowances", delete="past their time"),
    "tasks_app_webhookdelivery": May(
        insert="what was delivered",
        update="what became of it, once; other bodies under its key counted; past its horizon body, key go; "
        "what it said stays",
        columns=("verdict", "reason", "operation_id", "body", "bound_until", "key", "others"),
    ),
    # Jobs.
    "tasks_app_edge": May(insert="a graph's edges"),
    "tasks_app_eventwait": May(
        insert="a step waits",
        update="it came, or too late",
        columns=("event_id", "closed_at"),
    ),
    "tasks_app_job": May(
        insert="a job, with its first entry",
        update=f"its priority, when it expires, how many steps are active; {LOCKED}",
        columns=("version", "priority", "expires_at", "active_steps"),
    ),
    "tasks_app_outsideevent": May(
        insert="an event from outside",
        update="the step that took it",
        columns=("step_id", "taken_at"),
    ),
    "tasks_app_schedule": May(insert="a schedule", update="edited, paused, its next time"),
    "tasks_app_scheduleentry": May(insert="what happened to a schedule"),
    "tasks_app_step": May(
        insert="a step, with its first entry",
        update=f"priority, lease, when it is ready, what it still waits for; {LOCKED}",
        columns=(
            "version",
            "priority",
            "lane",
            "ready_at",
            "attempts",
            "lease_until",
            "incoming",
            "waiting_for",
        ),
    ),
    "tasks_app_workercluster": May(insert="a cluster runs", update="it still runs", delete="it is gone"),
    "tasks_app_workflowevent": May(insert="what happened to a graph"),
    # The assistant.
    "tasks_app_assistantmode": May(insert="a setting of the assistant's mode"),
    "tasks_app_assistantproposal": May(
        insert="a change that the assistant proposes",
        update="confirmed or dismissed; its second half asked for or given up",
        columns=(
            *("approvals", "remaining", "error", "confirmed_at", "dismissed_at"),
            *("subject_type", "subject_id"),
        ),
    ),
    "tasks_app_assistantsession": May(
        insert="a conversation begins",
        update="it goes on, is archived or restored",
        columns=("title", "preferences", "messages", "last_active_at", "archived_at"),
    ),
    "tasks_app_assistantstep": May(insert="a step of a turn"),
    "tasks_app_assistanttoolcall": May(
        insert="a tool that a model asked for",
        update="its result or its error",
        columns=("result", "error", "refused", "duration_ms", "ended_at"),
    ),
    "tasks_app_assistantturn": May(
        insert="a question to the assistant, with its first entry",
        update=f"its checkpoint and its lease; {LOCKED}",
        columns=("version", "messages", "plan", "partial", "reply", "lease_holder", "lease_until"),
    ),
}

DOORS: dict[str, str] = {
    **lifecycle_doors("operation", "approval", "job", "step", "assistant_turn"),
    "fd_approval_escalate": "a question put to further roles or given more time, with its entry",
    "fd_steps_claim": "takes the next steps, with the entry and event of each",
    "fd_steps_done": "completes steps and releases what follows, with the entry and event of each",
    "fd_tell": "the event that somebody was told something",
    "fd_message_due": "the event that a message is to be sent",
    "fd_events_number": "gives committed events their positions, in their order",
    "fd_events_forget": "events that all subscribers have passed, never younger than a day",
    "fd_delivery_hide": "our token, hidden in what a delivery said before its operation was known",
    "fd_deliveries_forget": "refused and repeated deliveries, never younger than a day",
    "fd_notifications_forget": "notifications past their time, never younger than a day",
    "fd_outside_forget": "events from outside past their time, never younger than a day",
    "fd_reconciliation_forget": "reports and resolved findings past their time, never younger than a day",
    "fd_security_forget": "the security log past its time, never younger than 90 days",
}
