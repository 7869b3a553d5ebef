"""The ground storey: everything that runs, waits and is recorded."""

from django.apps import AppConfig


class TasksAppConfig(AppConfig):
    name = "tasks_app"
    verbose_name = "Operations"

    def ready(self) -> None:
        from django.conf import settings
        from django.db.models.signals import post_migrate, pre_migrate

        from tasks_app import (
            database_connection,
            installation,  # noqa: F401 (registers its check)
            role_rights,
        )
        from tasks_app.adcp.addresses import private_networks_set
        from tasks_app.approvals import asked, links, seller_trust
        from tasks_app.approvals import bulk as bulk_decisions
        from tasks_app.approvals import explain as approvals_explain
        from tasks_app.approvals import telling as approvals_telling
        from tasks_app.assistant import setup as assistant
        from tasks_app.commands import explain as commands_explain
        from tasks_app.commands import kill_switch, messages, questions, seller_gate
        from tasks_app.commands import search as commands_search
        from tasks_app.database_rights import rights_after_migrate, rights_register
        from tasks_app.desk import page_search
        from tasks_app.events import log_lines, metrics
        from tasks_app.jobs import bulk, handlers
        from tasks_app.jobs import checks as jobs_checks  # noqa: F401 (registers itself)
        from tasks_app.jobs import explain as jobs_explain
        from tasks_app.lifecycle import checks  # noqa: F401 (registers itself)
        from tasks_app.migration_files import check_migration_files
        from tasks_app.notifications import login_changes, mail, team_webhook
        from tasks_app.operations import (
            account_reads,
            account_stops,
            answers,
            conflict_explain,
            conflicts,
            corrections,
            deadlines,
            execution,
            health,
            overdue,
            pauses,
            seller_reads,
            steering,
            telling,
            waiting,
            webhook_health,
        )
        from tasks_app.operations import explain as operations_explain
        from tasks_app.operations import metrics as operation_metrics
        from tasks_app.operations import search as operations_search
        from tasks_app.operations.sweep import chore_register
        from tasks_app.people import access, gate, lockout, security, sessions
        from tasks_app.people.house import house_after_migrate
        from tasks_app.people.scope import owned_register
        from tasks_app.reconciliation import actions, learnt, queue, retention, runs
        from tasks_app.reconciliation import explain as reconciliation_explain
        from tasks_app.reconciliation import search as reconciliation_search
        from tasks_app.sellers import explain as sellers_explain
        from tasks_app.sellers import search as sellers_search
        from tasks_app.troubles import rows
        from tasks_app.troubles import selectors as trouble_selectors
        from tasks_app.webhooks import early, unverified
        from tasks_app.webhooks import selectors as webhook_selectors

        database_connection.register()
        private_networks_set(settings.PRIVATE_NETWORKS)
        rights_register(tables=role_rights.TABLES, doors=role_rights.DOORS)
        pre_migrate.connect(check_migration_files, sender=self, dispatch_uid="check_migration_files")
        post_migrate.connect(house_after_migrate, sender=self, dispatch_uid="house_after_migrate")
        post_migrate.connect(rights_after_migrate, sender=self, dispatch_uid="rights_after_migrate")
        for kind in ("job", "approval"):
            owned_register(kind, f"tasks_app.{kind}")
        for kind in ("operation", "command"):
            owned_register(kind, f"tasks_app.{kind}", seller="seller")
        owned_register("account", "tasks_app.account", team="advertiser__team", seller="seller")
        owned_register("step", "tasks_app.step", "job__advertiser", "job__team")
        owned_register("conflict", "tasks_app.conflict", "operation__advertiser", seller="operation__seller")
        for kind in ("observation", "webhookdelivery"):
            owned_register(kind, f"tasks_app.{kind}", "operation__advertiser", "operation__team")
        owned_register(
            "seller_change",
            "tasks_app.trustchange",
            "account__advertiser",
            "account__advertiser__team",
            seller="seller",
        )
        owned_register("finding", "tasks_app.reconciliationfinding", "account__advertiser")
        log_lines.register()
        metrics.register()
        login_changes.register()
        mail.register()
        team_webhook.register()
        links.register()
        asked.register()
        bulk_decisions.register()
        approvals_telling.register()
        seller_trust.register()
        kill_switch.register()
        seller_gate.register()
        questions.register()
        messages.register()
        execution.register()
        webhook_selectors.register()
        access.register()
        account_reads.register()
        account_stops.register()
        overdue.register()
        corrections.register()
        deadlines.register()
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
        seller_reads.register()
        queue.register()
        learnt.register()
        chore_register("gates_opened", questions.gates_ask_again)
        chore_register("reconciliation_woken", runs.runs_wake)
        chore_register("reports_pruned", retention.reports_prune)
        chore_register("troubles_forgotten", rows.troubles_forget)
        security.register()
        gate.register()
        chore_register("security_log_pruned", security.security_forget)
        chore_register("sessions_pruned", sessions.sessions_forget)
        chore_register("sign_ins_forgotten", lockout.failures_forget)
        early.register()
        unverified.register()
        handlers.register()
        bulk.register()
        trouble_selectors.register()
        assistant.register()
        page_search.register()
        for room in (
            approvals_explain,
            operations_explain,
            conflict_explain,
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
