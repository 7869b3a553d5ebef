"""The upper storey: a brief becomes booked media."""

from django.apps import AppConfig


class CampaignsConfig(AppConfig):
    name = "campaigns"
    verbose_name = "Campaigns"

    def ready(self) -> None:
        from pathlib import Path

        from campaigns import actions, command_places, gates, rooms, surroundings
        from tasks_app.jobs.recipes import recipes_register

        actions.register()
        gates.register()
        rooms.register()
        surroundings.register()
        command_places.register()
        recipes_register(Path(__file__).parent / "recipes")
