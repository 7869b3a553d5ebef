"""The ground storey: everything that runs, waits and is recorded."""

from django.apps import AppConfig


class TasksAppConfig(AppConfig):
    name = "tasks_app"
    verbose_name = "Operations"

    def ready(self) -> None:
        from tasks_app.events import log_lines, metrics
        from tasks_app.jobs import handlers
        from tasks_app.lifecycle import checks  # noqa: F401 (registers itself)
        from tasks_app.operations import overdue
        from tasks_app.operations.sweep import chore_register
        from tasks_app.reconciliation import actions, retention, runs
        from tasks_app.webhooks import early

        log_lines.register()
        metrics.register()
        overdue.register()
        actions.register()
        runs.register()
        chore_register("reconciliation_woken", runs.runs_wake)
        chore_register("reports_pruned", retention.reports_prune)
        early.register()
        handlers.register()
