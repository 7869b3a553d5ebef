"""The ground storey: everything that runs, waits and is recorded."""

from django.apps import AppConfig


class TasksAppConfig(AppConfig):
    name = "tasks_app"
    verbose_name = "Operations"

    def ready(self) -> None:
        from django.conf import settings

        from tasks_app.adcp.addresses import private_networks_set
        from tasks_app.approvals import explain as approvals_explain
        from tasks_app.approvals import links
        from tasks_app.approvals import telling as approvals_telling
        from tasks_app.commands import explain as commands_explain
        from tasks_app.commands import kill_switch, messages, questions, seller_gate
        from tasks_app.commands import search as commands_search
        from tasks_app.events import log_lines, metrics
        from tasks_app.jobs import bulk, handlers
        from tasks_app.jobs import checks as jobs_checks  # noqa: F401 (registers itself)
        from tasks_app.jobs import explain as jobs_explain
        from tasks_app.lifecycle import checks  # noqa: F401 (registers itself)
        from tasks_app.notifications import mail, team_webhook
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
            waiting,
            webhook_health,
        )
        from tasks_app.operations import explain as operations_explain
        from tasks_app.operations import metrics as operation_metrics
        from tasks_app.operations import search as operations_search
        from tasks_app.operations.sweep import chore_register
        from tasks_app.people import gate, security, sessions
        from tasks_app.people.scope import owned_register
        from tasks_app.reconciliation import actions, queue, retention, runs
        from tasks_app.reconciliation import explain as reconciliation_explain
        from tasks_app.reconciliation import search as reconciliation_search
        from tasks_app.sellers import explain as sellers_explain
        from tasks_app.sellers import search as sellers_search
        from tasks_app.webhooks import early

        private_networks_set(settings.PRIVATE_NETWORKS)
        for kind in ("job", "operation", "approval", "command", "account"):
            owned_register(kind, f"tasks_app.{kind}")
        owned_register("step", "tasks_app.step", "job__advertiser")
        owned_register("conflict", "tasks_app.conflict", "operation__advertiser")
        owned_register("finding", "tasks_app.reconciliationfinding", "account__advertiser")
        log_lines.register()
        metrics.register()
        mail.register()
        team_webhook.register()
        links.register()
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
        waiting.register()
        health.register()
        webhook_health.register()
        operation_metrics.register()
        actions.register()
        runs.register()
        queue.register()
        chore_register("gates_opened", questions.gates_ask_again)
        chore_register("reconciliation_woken", runs.runs_wake)
        chore_register("reports_pruned", retention.reports_prune)
        security.register()
        gate.register()
        chore_register("security_log_pruned", security.security_forget)
        chore_register("sessions_pruned", sessions.sessions_forget)
        early.register()
        handlers.register()
        bulk.register()
        for room in (
            approvals_explain,
            operations_explain,
            jobs_explain,
            sellers_explain,
            commands_explain,
            reconciliation_explain,
            operations_search,
            sellers_search,
            commands_search,
            reconciliation_search,
        ):
            room.register()
