"""The middle storey: a deal from quote to delivery."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "orders"
    verbose_name = "Deals"

    def ready(self) -> None:
        from pathlib import Path

        from orders import (
            actions,
            approvals,
            changes,
            conflicts,
            explain,
            finding_actions,
            guards,
            late,
            live,
            mirror,
            outcomes,
            reconcile,
            search,
        )
        from tasks_app.jobs.recipes import recipes_register
        from tasks_app.operations.sweep import chore_register
        from tasks_app.people.scope import owned_register
        from tasks_app.reconciliation.runs import reader_register

        owned_register("deal", "orders.deal")
        actions.register()
        recipes_register(Path(__file__).parent / "recipes")

        guards.register()
        outcomes.register()
        approvals.register()
        changes.register()
        late.register()
        live.register()
        conflicts.register()
        explain.register()
        search.register()
        finding_actions.register()
        reader_register(reconcile.READER)
        chore_register("mirrors_woken", mirror.mirrors_wake)
