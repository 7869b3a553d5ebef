"""The middle storey: a deal from quote to delivery."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "orders"
    verbose_name = "Deals"

    def ready(self) -> None:
        from pathlib import Path

        from orders import (
            actions,
            answering,
            approvals,
            approved,
            assistant,
            begun_flights,
            corrected,
            explain,
            guards,
            live,
            mirror,
            obsolete_approvals,
            outcomes,
            questions,
            reconcile,
            role_rights,
            search,
        )
        from orders.changes import open_changes, prove, send
        from orders.unclaimed import actions as finding_actions
        from orders.unclaimed import conflicts, decisions
        from tasks_app.database_rights import rights_register
        from tasks_app.jobs.recipes import recipes_register
        from tasks_app.operations.sweep import chore_register
        from tasks_app.people.scope import owned_register
        from tasks_app.reconciliation.runs import reader_register

        owned_register("deal", "orders.deal", seller="seller")
        rights_register(tables=role_rights.TABLES, doors=role_rights.DOORS)
        actions.register()
        answering.register()
        approved.register()
        recipes_register(Path(__file__).parent / "recipes")

        guards.register()
        questions.register()
        outcomes.register()
        approvals.register()
        send.register()
        open_changes.register()
        prove.register()
        corrected.register()
        begun_flights.register()
        decisions.register()
        obsolete_approvals.register()
        live.register()
        conflicts.register()
        explain.register()
        search.register()
        assistant.register()
        finding_actions.register()
        reader_register(reconcile.READER)
        chore_register("mirrors_woken", mirror.mirrors_wake)
