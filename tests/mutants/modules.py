"""What is mutated, and which tests of each module are asked: fast ones, few, beside the rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_VERDICTS = ("tests/operations/test_verdicts.py", "tests/operations/test_verdicts_again.py")
_OF_OTHERS = (
    "tests/operations/test_observe.py::test_a_task_of_another_operation_is_not_taken_over",
    "tests/operations/test_observe.py::test_the_same_task_id_at_another_seller_is_another_task",
)
# Of what the tests of rows ask no database for, the sums that queries make.
_SUMS = (
    "tests/orders/test_amounts_of_rows.py",
    "tests/orders/test_amounts.py::test_sums_of_many_deals_are_those_of_each",
    "tests/orders/test_amounts_summed.py",
)
_NEWS = (
    "tests/operations/test_news_order.py::test_the_first_answer_to_a_call_is_older_than_whatever_came_besides",
    "tests/operations/test_news_order.py::test_a_look_is_as_new_as_its_question",
)
_SHOWN = (
    "tests/orders/test_proving.py",
    "tests/orders/test_cancelled_forms.py",
)
_TERMS = ("tests/orders/test_terms.py",)

MODULES: Mapping[str, Sequence[str]] = {
    "tasks_app.money": ("tests/desk/test_money.py",),
    "tasks_app.adcp.meaning": ("tests/adcp/test_meaning.py",),
    "tasks_app.approvals.policies": ("tests/approvals/test_policies.py",),
    "tasks_app.jobs.retries": ("tests/jobs/test_retries.py",),
    "tasks_app.operations.judging": _VERDICTS,
    "tasks_app.operations.matching": (*_VERDICTS, *_OF_OTHERS),
    "tasks_app.operations.policy": ("tests/operations/test_policy.py",),
    "campaigns.allocation": ("tests/campaigns/test_allocation.py",),
    "campaigns.recommend": ("tests/campaigns/test_recommend.py", "tests/campaigns/test_brief_reaches.py"),
    "orders.confirmation": ("tests/orders/test_confirmation.py", *_TERMS),
    "orders.terms.compare": _TERMS,
    "orders.terms.matching": _TERMS,
    "orders.terms.stated": _TERMS,
    "orders.terms.targeting": ("tests/orders/test_targeting.py",),
    # Those that ask a database come last: what the others leave of the time is theirs.
    "orders.amounts": _SUMS,
    "tasks_app.operations.news": _NEWS,
    "orders.changes.requested": _SHOWN,
}
