"""Tools about campaigns for the assistant."""


def register() -> None:
    """Offer the tools, and let campaigns be found by name. Called when the application starts."""
    from campaigns.assistant import budgets, offers, progress, submissions
    from campaigns.assistant.scoped_campaigns import campaign_names
    from tasks_app.assistant.tools.names import names_register
    from tasks_app.assistant.tools.registry import tool_register

    for tool in (
        budgets.LIST_CAMPAIGNS,
        budgets.CAMPAIGN_MONEY,
        offers.COMPARE_OFFERS,
        progress.CAMPAIGN_PROGRESS,
        submissions.DRAFT_BRIEF,
        submissions.RETRY_CAMPAIGN,
    ):
        tool_register(tool)
    names_register("campaign", campaign_names)
