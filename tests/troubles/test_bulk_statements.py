"""Statements over several rows that background work comes to: each is named here with the reason why one row
that cannot be written stops no other. A new one fails the first test until somebody has thought of that."""

from __future__ import annotations

import ast

import pytest

from tests.troubles.apart import ENDS, bare, bare_of, exposed
from tests.troubles.reached import Place, definitions, reached, used
from tests.troubles.statements import called_in_turn, over_several, writes

APART = "where it raises, each row is tried by itself (`tasks_app.troubles`, or as its callers do)"
BY_KEY = "one row, named by its key"
WHOLE = "the parts of one thing, which are written with it or not at all"
OURS = "counts, leases and marks of ours, by id and moment: nothing in them is anybody's, or can be too much"
ACT = "all follows from one act, in its commit: done with it, or it is refused and nothing has happened"
ONE = "the first that is due, and no further"
CALLED = "the rows that it is given: what calls it is named here"
GONE = "removes what is past its time: nothing waits for it, and a chore that raises stops no other"
ALLOWED: dict[Place, str] = {
    ("campaigns.actions", "allocate"): WHOLE,
    ("campaigns.calendar.feeds", "feed_revoke"): WHOLE,
    ("campaigns.outcome", "campaign_execute"): WHOLE,
    ("campaigns.outcome", "campaign_job_retried"): WHOLE,
    ("orders.unclaimed.adopt", "_adopt"): WHOLE,
    ("orders.booking", "deal_adopt"): WHOLE,
    ("orders.confirmation", "save_confirmed"): WHOLE,
    ("orders.mirror", "_claim"): APART,
    ("orders.mirror", "_release"): OURS,
    ("orders.seller_state", "_write"): WHOLE,
    ("orders.services", "deal_amended"): WHOLE,
    ("orders.services", "deal_quote"): WHOLE,
    ("tasks_app.approvals.policy_escalation", "_ESCALATE"): BY_KEY,
    ("tasks_app.approvals.telling", "_tell"): APART,
    ("tasks_app.assistant.turns", "clear_stale_turns"): OURS,
    ("tasks_app.assistant.sessions", "archive_idle_sessions"): OURS,
    ("tasks_app.commands.messages", "_due"): BY_KEY,
    ("tasks_app.events.delivery", "_MOVE"): BY_KEY,
    ("tasks_app.events.delivery", "_TAKE"): BY_KEY,
    ("tasks_app.events.delivery", "_put_aside"): OURS,
    ("tasks_app.events.held", "deliveries_hasten"): OURS,
    ("tasks_app.events.held", "_later"): BY_KEY,
    ("tasks_app.events.held", "_delivered"): BY_KEY,
    ("tasks_app.events.held", "_give_up"): BY_KEY,
    ("tasks_app.events.publishing", "_NUMBER"): OURS,
    ("tasks_app.events.retention", "_FORGET"): GONE,
    ("tasks_app.events.retention", "events_prune"): OURS,
    ("tasks_app.jobs.abandoning", "abandon_successors"): WHOLE,
    ("tasks_app.jobs.calls", "steps_claim"): APART,
    ("tasks_app.jobs.calls", "steps_done"): APART,
    ("tasks_app.jobs.claims", "renew_leases"): OURS,
    ("tasks_app.jobs.endings", "_cut_short"): WHOLE,
    ("tasks_app.jobs.engine", "_queue"): WHOLE,
    ("tasks_app.jobs.engine", "_release_successors"): WHOLE,
    ("tasks_app.jobs.engine", "expand"): WHOLE,
    ("tasks_app.jobs.events", "record_many"): WHOLE,
    ("tasks_app.jobs.outside", "_wake_with"): BY_KEY,
    ("tasks_app.jobs.outside", "event_wait"): WHOLE,
    ("tasks_app.jobs.outside", "events_forget"): GONE,
    ("tasks_app.jobs.planning", "plan_steps"): WHOLE,
    ("tasks_app.jobs.planning", "release_rest"): WHOLE,
    ("tasks_app.jobs.wake", "steps_ready"): APART,
    ("tasks_app.lifecycle.inserting", "rows_insert"): WHOLE,
    ("tasks_app.lifecycle.transitions", "_write"): BY_KEY,
    ("tasks_app.lifecycle.transitions", "append_birth"): BY_KEY,
    ("tasks_app.lifecycle.transitions", "create"): BY_KEY,
    ("tasks_app.lifecycle.transitions", "note"): BY_KEY,
    ("tasks_app.lifecycle.transitions", "transition_many"): CALLED,
    ("tasks_app.notifications.mail", "_mailed"): WHOLE,
    ("tasks_app.notifications.services", "notifications_forget"): GONE,
    ("tasks_app.notifications.services", "notify"): BY_KEY,
    ("tasks_app.notifications.team_webhook", "_post"): BY_KEY,
    ("tasks_app.notifications.team_webhook", "team_webhook_deliver"): WHOLE,
    ("tasks_app.operations.bodies", "insert"): APART,
    ("tasks_app.operations.breaker", "breaker_probe"): BY_KEY,
    ("tasks_app.operations.breaker", "breaker_record"): BY_KEY,
    ("tasks_app.operations.claim_statements", "_LEASE"): OURS,
    ("tasks_app.operations.conflicts", "_kept"): BY_KEY,
    ("tasks_app.operations.conflicts", "conflict_open"): BY_KEY,
    ("tasks_app.operations.deadlines", "_move"): APART,
    ("tasks_app.operations.deadlines", "_whole_time"): APART,
    ("tasks_app.operations.deadlines", "deadlines_later"): APART,
    ("tasks_app.operations.deadlines", "mark_for_lookup"): APART,
    ("tasks_app.operations.dispatch", "_leave"): APART,
    ("tasks_app.operations.leases", "leases_forget"): GONE,
    ("tasks_app.operations.leases", "leases_release"): OURS,
    ("tasks_app.operations.leases", "leases_renew"): OURS,
    ("tasks_app.operations.publish", "_publish_together"): APART,
    ("tasks_app.operations.writes", "Writes"): APART,
    ("tasks_app.operations.writes", "_COLUMNS"): APART,
    ("tasks_app.people.access", "_tokens_revoke"): WHOLE,
    ("tasks_app.people.lockout", "failures_forget"): GONE,
    ("tasks_app.people.roles", "roles_sync"): WHOLE,
    ("tasks_app.people.second_factor", "factor_forget_begun"): WHOLE,
    ("tasks_app.people.security", "security_forget"): GONE,
    ("tasks_app.people.sessions", "sessions_forget"): GONE,
    ("tasks_app.reconciliation.actions", "_let_go"): ACT,
    ("tasks_app.reconciliation.findings", "_Known"): APART,
    ("tasks_app.reconciliation.retention", "reports_prune"): GONE,
    ("tasks_app.reconciliation.runs", "_begin"): OURS,
    ("tasks_app.reconciliation.runs", "run_ask"): OURS,
    ("tasks_app.sellers.heard", "seller_read_now"): BY_KEY,
    ("tasks_app.sellers.trust", "_write"): BY_KEY,
    ("tasks_app.troubles.rows", "_end"): BY_KEY,
    ("tasks_app.troubles.rows", "_held"): BY_KEY,
    ("tasks_app.troubles.rows", "troubles_forget"): GONE,
    ("tasks_app.webhooks.apply", "_hide"): BY_KEY,
    ("tasks_app.webhooks.apply", "received_apply_many"): APART,
    ("tasks_app.webhooks.nonces", "nonces_forget"): GONE,
    ("tasks_app.webhooks.rates", "tallies_forget"): GONE,
    ("tasks_app.webhooks.retention", "_contradictions_forget"): APART,
    ("tasks_app.webhooks.retention", "_keys_forget"): APART,
    ("tasks_app.webhooks.retention", "deliveries_forget"): GONE,
}
# How many they are, where there are several.
MORE: dict[Place, int] = {
    ("campaigns.actions", "allocate"): 2,
    ("tasks_app.assistant.turns", "clear_stale_turns"): 2,
    ("orders.booking", "deal_adopt"): 2,
    ("tasks_app.events.retention", "events_prune"): 2,
    ("tasks_app.jobs.engine", "_queue"): 2,
    ("tasks_app.jobs.planning", "plan_steps"): 2,
    ("tasks_app.notifications.services", "notify"): 2,
    ("tasks_app.notifications.team_webhook", "_post"): 2,
    ("tasks_app.operations.dispatch", "_leave"): 2,
    ("tasks_app.reconciliation.runs", "_begin"): 2,
    ("tasks_app.reconciliation.runs", "run_ask"): 2,
    ("tasks_app.webhooks.retention", "_keys_forget"): 2,
}

# Functions that call, for one row after the other, what writes it.
IN_TURN: dict[Place, str] = {
    ("orders.calling_off", "deals_call_off"): ACT,
    ("tasks_app.operations.claims", "Claimed"): OURS,
    ("orders.changes.open_changes", "close_changes_of_ended_deal"): WHOLE,
    ("orders.changes.open_changes", "withdraw_unsent"): WHOLE,
    ("orders.services", "deal_withdraw_held"): WHOLE,
    ("orders.unclaimed.unclaimed_buys", "review_unclaimed"): WHOLE,
    ("tasks_app.approvals.subjects", "questions_end_with_job"): WHOLE,
    ("tasks_app.approvals.subjects", "questions_review"): ACT,
    ("tasks_app.approvals.subjects", "questions_set_off"): ACT,
    ("tasks_app.approvals.subjects", "questions_withdraw"): WHOLE,
    ("tasks_app.commands.messages", "_let_go"): OURS,
    ("tasks_app.events.held", "deliver_held"): OURS,
    ("tasks_app.jobs.abandoning", "abandon_successors"): WHOLE,
    ("tasks_app.jobs.claims", "pop_ready"): APART,
    ("tasks_app.jobs.endings", "_end_below"): WHOLE,
    ("tasks_app.jobs.endings", "_withdraw_unsent"): WHOLE,
    ("tasks_app.jobs.engine", "_queue"): WHOLE,
    ("tasks_app.jobs.engine", "release"): WHOLE,
    ("tasks_app.jobs.retrying", "_retry"): WHOLE,
    ("tasks_app.notifications.mail", "mail_told"): OURS,
    ("tasks_app.operations.ordering", "order_withdraw"): WHOLE,
    ("tasks_app.operations.reading", "_renewing"): OURS,
    ("tasks_app.reconciliation.runs", "_read"): OURS,
    ("tasks_app.troubles.rows", "each_row"): OURS,
    ("tasks_app.troubles.rows", "side_by_side"): OURS,
}


@pytest.mark.rule
def test_every_statement_over_several_rows_has_its_reason() -> None:
    found = {place: len(several) for place in reached() if (several := over_several(definitions()[place]))}
    assert found == {**dict.fromkeys(ALLOWED, 1), **MORE}


@pytest.mark.rule
def test_what_is_said_to_be_tried_apart_is_so_by_every_way_to_it() -> None:
    apart = {place for place, why in ALLOWED.items() if why == APART}
    assert {place for place in apart & exposed() if over_several(bare(place))} == set()
    assert ENDS.keys() <= reached()


@pytest.mark.rule
def test_what_is_called_for_one_after_the_other_has_its_reason() -> None:
    """A function that writes one row is called in a loop: what one raises, the others never get to."""
    found = {place for place in exposed() if any(_writing_in_turn(place))}
    assert found == set(IN_TURN)


def _writing_in_turn(place: Place) -> list[Place]:
    calls = (call.func for call in called_in_turn(bare(place)))
    called = {one for call in calls for one in used(place[0], call)} - {place}
    return [
        one
        for one in called & definitions().keys()
        if not isinstance(definitions()[one], ast.ClassDef) and writes(definitions()[one])
    ]


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("Thing.objects.filter(open=True).update(open=False)", True),
        ("Thing.objects.filter(pk__in=ids).update(open=False)", True),
        ("rows.update(open=False)", True),
        ("rows.update(**changes)", True),
        ("rows.exclude(pk__in=ids).delete()", True),
        ("Thing.objects.bulk_create(made)", True),
        ("Thing.objects.bulk_update(made, ['open'])", True),
        ("cursor.execute('update app_thing set open = false')", True),
        ("cursor.execute('delete from app_thing')", True),
        ("Thing.objects.filter(pk=row.pk).update(open=False)", False),
        ("Thing.objects.filter(pk=row.pk).delete()", False),
        ("told.update(more)", False),
        ("cache.delete('key')", False),
        ("cursor.execute('select 1 from app_thing for update')", False),
        ("cursor.execute('select fd_things_forget(%s)', [10])", True),
        ("cursor.execute('select n from fd_things_number(%s)', [10])", True),
        ("transition_many(rows, 'done', actor='system')", True),
        ("lifecycle.transition_many(rows, 'done', actor='system')", True),
        ("Thing.objects.filter(of__in=Of.objects.filter(pk=1)).update(open=False)", True),
        ("Thing.objects.exclude(pk=row.pk).delete()", True),
        ("Thing.objects.filter(pk=row.pk).exclude(open=False).update(open=False)", False),
        ("transition(row, 'done', actor='system')", False),
        ("for row in rows: transition(row, 'done', actor='system')", True),
        ("for row in rows: row.save()", True),
        ("[Thing.objects.filter(pk=pk).update(open=False) for pk in ids]", True),
        ("while ids: Thing.objects.get(pk=ids.pop()).delete()", True),
        ("for row in Thing.objects.create().rows: print(row)", False),
    ],
)
def test_what_counts_as_several(text: str, several: bool) -> None:
    assert bool(over_several(ast.parse(text))) is several


@pytest.mark.parametrize(
    ("text", "is_bare"),
    [
        ("def f(): rows.update(open=False)", True),
        ("def f(): together(W, ids, lambda ids: [rows.update(open=False)])", False),
        ("def f():\n def g(ids): rows.update(open=False)\n return together(W, ids, g)", False),
        ("def f():\n def g(ids): rows.update(open=False)\n each_row(W, ids, h)\n g(ids)", True),
        ("def f():\n each_row(W, ids, h)\n rows.update(open=False)", True),
        ("def f():\n try: rows.update(a=1)\n except Exception: log()\n each_row(W, ids, h)", False),
        ("def f():\n try: rows.update(a=1)\n except ValueError: log()\n each_row(W, ids, h)", True),
        ("def f():\n try: rows.update(a=1)\n except Exception: log()", True),
        ("def f():\n with attempt(step): rows.update(a=1)", False),
    ],
)
def test_what_counts_as_tried_apart(text: str, is_bare: bool) -> None:
    assert bool(over_several(bare_of(ast.parse(text).body[0]))) is is_bare


@pytest.mark.rule
def test_what_is_registered_and_woken_is_reached() -> None:
    """A chore, a drain, a release, a listener and what they use, through other modules."""
    assert reached() >= {
        ("tasks_app.operations.seller_reads", "sellers_wake"),
        ("tasks_app.jobs.worker", "drain"),
        ("tasks_app.commands.questions", "gates_ask_again"),
        ("tasks_app.jobs.wake", "steps_ready"),
        ("orders.mirror", "_claim"),
    }
