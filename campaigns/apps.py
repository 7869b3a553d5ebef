"""The upper storey: a brief becomes booked media."""

from django.apps import AppConfig


class CampaignsConfig(AppConfig):
    name = "campaigns"
    verbose_name = "Campaigns"

    def ready(self) -> None:
        from pathlib import Path

        from django.db.models.signals import post_migrate

        from campaigns import (
            actions,
            assistant,
            command_places,
            explain,
            gates,
            live,
            role_rights,
            rooms,
            search,
            surroundings,
        )
        from campaigns.calendar import feeds
        from tasks_app.database_rights import rights_register
        from tasks_app.jobs.recipes import recipes_register
        from tasks_app.people.roles import roles_after_migrate
        from tasks_app.people.scope import owned_register

        # Rights of every storey exist once the last of them has migrated.
        post_migrate.connect(roles_after_migrate, sender=self, dispatch_uid="roles_after_migrate")
        owned_register("campaign", "campaigns.campaign")
        rights_register(tables=role_rights.TABLES, doors=role_rights.DOORS)
        actions.register()
        explain.register()
        search.register()
        assistant.register()
        gates.register()
        live.register()
        rooms.register()
        surroundings.register()
        feeds.register()
        command_places.register()
        recipes_register(Path(__file__).parent / "recipes")
