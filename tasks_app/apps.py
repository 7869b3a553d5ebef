"""The ground storey: everything that runs, waits and is recorded."""

from django.apps import AppConfig


class TasksAppConfig(AppConfig):
    name = "tasks_app"
    verbose_name = "Operations"

    def ready(self) -> None:
        from django.conf import settings
        from django.contrib import admin

        from tasks_app.adcp.addresses import private_networks_set
        from tasks_app.approvals import telling as approvals_telling
        from tasks_app.commands import kill_switch, messages, questions, seller_gate
        from tasks_app.events import log_lines, metrics
        from tasks_app.jobs import bulk, handlers
        from tasks_app.lifecycle import checks  # noqa: F401 (registers itself)
        from tasks_app.notifications import mail
        from tasks_app.operations import (
            answers,
            conflicts,
            corrections,
            execution,
            health,
            overdue,
            pauses,
            steering,
            telling,
            webhook_health,
        )
        from tasks_app.operations import metrics as operation_metrics
        from tasks_app.operations.sweep import chore_register
        from tasks_app.paging import lists_adopt
        from tasks_app.reconciliation import actions, retention, runs
        from tasks_app.webhooks import early

        private_networks_set(settings.PRIVATE_NETWORKS)
        lists_adopt(admin.site)
        log_lines.register()
        metrics.register()
        mail.register()
        approvals_telling.register()
        kill_switch.register()
        seller_gate.register()
        questions.register()
        messages.register()
        execution.register()
        overdue.register()
        corrections.register()
        conflicts.register()
        pauses.register()
        answers.register()
        steering.register()
        telling.register()
        health.register()
        webhook_health.register()
        operation_metrics.register()
        actions.register()
        runs.register()
        chore_register("gates_opened", questions.gates_ask_again)
        chore_register("reconciliation_woken", runs.runs_wake)
        chore_register("reports_pruned", retention.reports_prune)
        early.register()
        handlers.register()
        bulk.register()
