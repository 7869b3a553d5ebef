"""Tools about deals and sellers for the assistant."""


def register() -> None:
    """Offer the tools, and let deals be found by name. Called when the application starts."""
    from orders.assistant import changes, deal_lists, deal_money, seller_figures
    from orders.assistant.names import deal_names
    from tasks_app.assistant.tools.names import names_register
    from tasks_app.assistant.tools.registry import tool_register

    for tool in (
        deal_lists.LIST_DEALS,
        deal_lists.UPCOMING_DEALS,
        deal_money.DEAL_MONEY,
        deal_money.OPEN_DIFFERENCES,
        seller_figures.SELLER_SPEND,
        seller_figures.COMPARE_SELLERS,
        changes.CHANGE_BUDGET,
        changes.MOVE_MONEY,
        changes.PAUSE_DEAL,
        changes.CANCEL_DEAL_TOOL,
    ):
        tool_register(tool)
    names_register("deal", deal_names)
