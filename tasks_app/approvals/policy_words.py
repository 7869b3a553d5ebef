"""A policy in words: what it catches, who must decide, until when, and what happens otherwise. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from tasks_app.approvals.models import Approval
from tasks_app.approvals.policies import Policy
from tasks_app.approvals.policy_models import OnExpiry, PolicyRule
from tasks_app.approvals.policy_reasons import money_words, percent_words
from tasks_app.desk.items import joined, lowered, plural, raised

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def policy_sentences(policy: Policy, *, labels: Mapping[str, str], scope: str = "") -> tuple[str, ...]:
    """A policy as sentences, whole. `labels`: kinds of questions in words; `scope`: whose questions."""
    for_whom = f"For {scope}: " if scope else ""
    asked = joined([lowered(labels.get(kind, kind.replace("_", " "))) for kind in policy.kinds])
    subjects = f"every {asked or 'approval of no kind yet'}"
    if policy.rule == PolicyRule.ALWAYS:
        applies = f"{for_whom}applies to {subjects}"
    else:
        applies = f"{for_whom}reads {subjects} and applies to {catches_words(policy)}"
    return tuple(
        sentence
        for sentence in (
            f"{raised(applies)}.",
            _compared(policy),
            f"{people_words(policy.quorum, policy.roles)} must approve, never who asked; "
            "one rejection ends it.",
            _until(policy),
            _escalated(policy),
            _EXPIRY[policy.on_expiry],
        )
        if sentence
    )


def catches_words(policy: Policy) -> str:
    """What comes to 100,000.00 USD or more, as a sentence goes on."""
    return _CATCHES[policy.rule](policy)


def people_words(quorum: int, roles: tuple[str, ...] | list[str]) -> str:
    """Two different people of the role Approver or Administrator."""
    count = _NUMBERS[quorum] if quorum < len(_NUMBERS) else str(quorum)
    people = "person" if quorum == 1 else "different people"
    who = f"of the role {_either(roles)}" if roles else "with the right to decide"
    return f"{count.capitalize()} {people} {who}"


def quorum_words(quorum: int, roles: tuple[str, ...] | list[str]) -> str:
    """Two approvers; one approver of Administrator."""
    count = _NUMBERS[quorum] if quorum < len(_NUMBERS) else str(quorum)
    return f"{count} approver{'s' if quorum > 1 else ''}{f' of {_either(roles)}' if roles else ''}"


def caught_words(approval: Approval) -> tuple[str, str]:
    """By what it was caught, and who is wanted, for one line each of the queue; what catches everything is
    left out beside what does not."""
    special = [one for one in approval.policies if one["rule"] != PolicyRule.ALWAYS]
    caught = [one["name"].partition(", ")[0] for one in special or approval.policies]
    said = "; ".join(dict.fromkeys(caught)) or approval.policy.partition(", ")[0]
    return said, quorum_words(approval.quorum, approval.roles)


def span_words(span: timedelta) -> str:
    """24 hours, 90 minutes, 3 days."""
    minutes = span.total_seconds() / 60
    if minutes % 60:
        return plural(round(minutes), "minute")
    hours = int(minutes // 60)
    return plural(hours, "hour") if hours % 24 or hours <= 48 else plural(hours // 24, "day")


def _either(roles: tuple[str, ...] | list[str]) -> str:
    return joined(list(roles)).replace(" and ", " or ")


def _limit(policy: Policy) -> str:
    return money_words(policy.limit, policy.currency) if policy.limit is not None else "a limit not said yet"


def _amount(policy: Policy) -> str:
    return f"what comes to {_limit(policy)} or more"


def _sensitive(policy: Policy) -> str:
    named = _either(policy.categories) or "a category not said yet"
    return f"what the advertiser, the brief or a product puts under {named}"


def _change(policy: Policy) -> str:
    share = percent_words(policy.percent) if policy.percent is not None else "a share not said yet"
    return f"what changes an approved amount by more than {share}, up or down"


def _splitting(policy: Policy) -> str:
    gap = f"at most {plural(policy.gap_days, 'day')} apart" if policy.gap_days else "without a gap"
    return (
        "what, together with open and booked orders of the same advertiser with the same seller whose "
        f"flights overlap or follow each other {gap}, comes to {_limit(policy)} or more"
    )


_CATCHES: dict[PolicyRule, Callable[[Policy], str]] = {
    PolicyRule.ALWAYS: lambda policy: "every one",
    PolicyRule.AMOUNT: _amount,
    PolicyRule.FIRST_ORDER: lambda policy: "the team’s first order with a seller",
    PolicyRule.SENSITIVE: _sensitive,
    PolicyRule.MANUAL: lambda policy: (
        "inventory that is not bought by itself: not guaranteed, without a fixed price, "
        "with material sent by hand, or changed only with the seller’s approval"
    ),
    PolicyRule.CHANGE: _change,
    PolicyRule.SPLITTING: _splitting,
}


def _compared(policy: Policy) -> str:
    if policy.rule not in (PolicyRule.AMOUNT, PolicyRule.SPLITTING):
        return ""
    return (
        "Other currencies are compared in USD, at the latest exchange rate on or before the day; "
        "where there is none, it is caught."
    )


def _until(policy: Policy) -> str:
    never = "a deadline always ends before the seller’s hold does"
    if policy.deadline is None:
        return f"It sets no deadline of its own; {never}."
    hours = ", counted in the seller’s business hours where they are known" if policy.business_hours else ""
    return f"They have {span_words(policy.deadline)}{hours}; {never}."


def _escalated(policy: Policy) -> str:
    if policy.escalate_after is None or not policy.escalate_to:
        return ""
    return (
        f"After {span_words(policy.escalate_after)} without a decision, and before the deadline, "
        f"the role {policy.escalate_to} is told and may decide too."
    )


_EXPIRY: dict[OnExpiry, str] = {
    OnExpiry.UNSAID: "If nobody decides in time it ends without approval, unless another policy keeps it "
    "waiting. Waiting never approves.",
    OnExpiry.EXPIRE: "If nobody decides in time it ends without approval. Waiting never approves.",
    OnExpiry.WAIT: "If nobody decides in time it is escalated and keeps waiting, at most as long as the "
    "seller holds it, unless another policy ends it. Waiting never approves.",
}
