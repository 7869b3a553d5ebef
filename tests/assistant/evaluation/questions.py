"""The 60 questions, as one table. Names in braces are facts of a data set (`data_sets`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NOT_UNDERSTOOD = "I can answer questions such as"


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question.

    Attributes:
        text: As a person types it.
        tool: The tool that has to answer; "" for none.
        arguments: Some of the arguments that the tool has to get.
        must: What the reply or its table has to contain, in any case.
        must_not: What they may not contain.
        role: Who asks.
        opened: The fact that holds the reference of the deal on the open page.
        proposes: Whether the answer is a proposal.
    """

    text: str
    tool: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    role: str = "Buyer"
    opened: str = ""
    proposes: bool = False


def _explain(text: str, named: str, *must: str, opened: str = "") -> Question:
    return Question(
        text=text, tool="explain_object", arguments={"reference": named}, must=(named, *must), opened=opened
    )


def _about(text: str, tool: str, argument: str, named: str, *must: str) -> Question:
    return Question(text=text, tool=tool, arguments={argument: named}, must=must)


def _plain(text: str, tool: str, *must: str, must_not: tuple[str, ...] = (), role: str = "Buyer") -> Question:
    return Question(text=text, tool=tool, must=must, must_not=must_not, role=role)


def _change(text: str, tool: str, *must: str, **arguments: str) -> Question:
    return Question(text=text, tool=tool, arguments=arguments, must=must, proposes=True)


QUESTIONS = (
    # How it stands, and why it waits.
    _explain("Why is {undecided} not booked?", "{undecided}", "quoted", "{undecided_approval}"),
    _explain("What is the status of {tv}?", "{tv}", "{tv_state}"),
    _explain("How does {campaign_name} stand?", "{campaign}", "{campaign_state}"),
    _explain("Where does {failed_name} stand?", "{failed}", "{failed_state}"),
    _explain("Is {tv} booked?", "{tv}", "{tv_state}"),
    _explain("Explain {audio}", "{audio}", "{audio_state}"),
    _explain("What is this waiting for?", "{undecided}", "{undecided_approval}", opened="undecided"),
    _explain("Why is it stuck?", "{undecided}", "{undecided_approval}", opened="undecided"),
    _explain("Is {campaign_name} blocked?", "{campaign}", "{campaign_state}"),
    # Who acts.
    _explain("Who can decide on {undecided_approval}?", "{undecided_approval}", "{approver}"),
    _explain("Who has to approve {undecided}?", "{undecided}", "{approver}"),
    _explain("Who can decide this?", "{undecided}", "{approver}", opened="undecided"),
    _plain("What waits for me?", "my_queue", "{undecided_approval}", role="Approver"),
    _plain("Is anything waiting for me?", "my_queue", "{undecided_approval}", role="Approver"),
    _plain("Show my approvals", "my_queue", "{undecided_approval}", role="Approver"),
    _plain("What must I decide?", "my_queue", "{undecided_approval}", role="Approver"),
    # Money.
    _about("What did we spend with {tv_seller}?", "seller_spend", "seller", "{tv_slug}", "{tv_budget}"),
    _about("Spend with {audio_seller}", "seller_spend", "seller", "{audio_slug}", "{audio_budget}"),
    _about("How much did {campaign_name} cost?", "campaign_money", "campaign", "{campaign}", "{committed}"),
    _about("What is left of {campaign_name}?", "campaign_money", "campaign", "{campaign}", "{remaining}"),
    _about("What remains of {campaign}?", "campaign_money", "campaign", "{campaign}", "{remaining}"),
    _about(
        "How much is committed for {undecided_name}?",
        "campaign_money",
        "campaign",
        "{undecided_campaign}",
        "{undecided_budget}",
    ),
    _about("What is the budget of {tv}?", "deal_money", "deal", "{tv}", "{tv_budget}"),
    _about("What have we spent on {audio}?", "deal_money", "deal", "{audio}", "{audio_budget}"),
    # Offers and sellers.
    _about(
        "Compare the offers for {undecided_name}",
        "compare_offers",
        "campaign",
        "{undecided_campaign}",
        "{undecided_seller}",
    ),
    _about(
        "What was offered for {undecided_campaign}?",
        "compare_offers",
        "campaign",
        "{undecided_campaign}",
        "{undecided_seller}",
    ),
    _about(
        "What was put forward for {undecided_name}?",
        "compare_offers",
        "campaign",
        "{undecided_campaign}",
        "{undecided_seller}",
    ),
    _plain("Compare the sellers", "compare_sellers", "{tv_seller}", "{audio_seller}"),
    _plain("Which seller is the fastest?", "compare_sellers", "{tv_seller}"),
    _plain("Which sellers are reliable?", "compare_sellers", "{audio_seller}"),
    # Days to come.
    _plain("Which deals start within 30 days?", "upcoming_deals", "{tv}", "{audio}"),
    _plain("Which deals end within 80 days?", "upcoming_deals", "{tv}", "{audio}"),
    _plain("Which deals begin within three weeks?", "upcoming_deals", "{tv}"),
    _plain("Which deals end this week?", "upcoming_deals", must_not=("{tv}", "{undecided}")),
    _plain("Which deals need creatives soon?", "upcoming_deals"),
    # Differences.
    _plain("Which deals were booked differently?", "open_differences", "{different}"),
    _plain("Are there any conflicts?", "open_differences", "{different}"),
    _plain("Does anything differ from what we approved?", "open_differences", "{different}"),
    # History.
    _about("Who changed {tv}?", "object_history", "reference", "{tv}", "{tv_last_actor}"),
    _about("Show the audit trail of {undecided}", "object_history", "reference", "{undecided}", "quoted"),
    _about("When was {audio} booked?", "object_history", "reference", "{audio}", "booked"),
    _about("History of {campaign_name}", "object_history", "reference", "{campaign}", "Submitted"),
    _about("Who approved {tv}?", "object_history", "reference", "{tv}", "{tv_approver}"),
    _about("What happened since yesterday?", "recent_events", "since", "{yesterday}", "changes"),
    _about("What changed today?", "recent_events", "since", "{today}", "changes"),
    _about("What did I miss?", "recent_events", "since", "{yesterday}", "changes"),
    # Lists.
    _plain("Which deals are booked?", "list_deals", "{tv}", "{audio}", must_not=("{undecided}",)),
    _plain("List our campaigns", "list_campaigns", "{campaign}", "{undecided_campaign}"),
    _plain("How many deals do we have?", "list_deals", "{deals}", must_not=("{foreign}",)),
    _plain("Show the deals of {campaign_name}", "list_deals", "{tv}", "{audio}", must_not=("{undecided}",)),
    _about("How far is {undecided_name}?", "campaign_progress", "campaign", "{undecided_campaign}"),
    # Changes, which are proposed and nothing more.
    _change(
        "Move USD 1,000 of {campaign_name} from CTV to audio",
        "move_money",
        "{tv}",
        "{audio}",
        campaign="{campaign}",
        amount="1000",
    ),
    _change(
        "Change the budget of {tv} to 25,000", "change_budget", "USD 25,000", deal="{tv}", budget="25000"
    ),
    _change("Pause {audio}", "pause_deal", "{audio}", deal="{audio}", paused="True"),
    _change(
        "Cancel {tv} because the client stopped it", "cancel_deal", "{tv}", reason="the client stopped it"
    ),
    _change(
        "Draft a brief for {advertiser}: USD 50,000 on CTV and podcast from {start} to {end}",
        "draft_brief",
        "{advertiser}",
        "USD 50,000",
        "assumed",
        start="{start}",
        end="{end}",
    ),
    _about("Retry {failed_name}", "retry_campaign", "campaign", "{failed}", "cannot be submitted"),
    # What it cannot do, or may not show.
    _plain("What is the weather like?", "", NOT_UNDERSTOOD),
    _explain("Approve {undecided_approval}", "{undecided_approval}"),
    _plain(
        "What is the status of {foreign}?",
        "explain_object",
        "among what you may see",
        must_not=("{foreign_seller}", "{foreign_budget}"),
    ),
)
