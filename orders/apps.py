"""The middle storey: a deal from quote to delivery."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "orders"
    verbose_name = "Deals"

    def ready(self) -> None:
        from pathlib import Path

        from orders import actions, approvals, changes, conflicts, guards, late, outcomes
        from tasks_app.jobs.recipes import recipes_register

        actions.register()
        recipes_register(Path(__file__).parent / "recipes")

        guards.register()
        outcomes.register()
        approvals.register()
        changes.register()
        late.register()
        conflicts.register()
