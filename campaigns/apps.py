"""The upper storey: a brief becomes booked media."""

from django.apps import AppConfig


class CampaignsConfig(AppConfig):
    name = "campaigns"
    verbose_name = "Campaigns"

    def ready(self) -> None:
        from pathlib import Path

        from campaigns import actions, command_places, explain, gates, live, rooms, search, surroundings
        from tasks_app.jobs.recipes import recipes_register
        from tasks_app.people.scope import owned_register

        owned_register("campaign", "campaigns.campaign")
        actions.register()
        explain.register()
        search.register()
        gates.register()
        live.register()
        rooms.register()
        surroundings.register()
        command_places.register()
        recipes_register(Path(__file__).parent / "recipes")
