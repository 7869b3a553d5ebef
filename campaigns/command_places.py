"""What surrounds a command that a risk gate stopped: campaign, money and seller of the deal it is for."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import replace

from campaigns.surroundings import deal_detail, deal_places
from tasks_app.approvals.around import Detail, Place, around_register
from tasks_app.commands.models import Command
from tasks_app.lifecycle.names import link_to
from tasks_app.people.models import User
from tasks_app.people.scope import visible


def register() -> None:
    """Called when the application starts."""
    around_register("command", places=command_places, detail=command_detail)


def command_places(ids: Collection[uuid.UUID], viewer: User) -> dict[uuid.UUID, Place]:
    """Command id to its deal's place, for commands about deals that the viewer may see."""
    rows = visible(Command.objects.filter(pk__in=ids, subject_type="deal"), viewer)
    about = {pk: subject for pk, subject in rows.values_list("pk", "subject_id") if subject}
    deals = deal_places(set(about.values()), viewer) if about else {}
    return {
        pk: replace(deals[subject], link=link_to(Command, pk))
        for pk, subject in about.items()
        if subject in deals
    }


def command_detail(command_id: uuid.UUID, viewer: User) -> Detail:
    """What surrounds its deal; nothing for a command about something else."""
    rows = visible(Command.objects.filter(pk=command_id, subject_type="deal"), viewer)
    subject = rows.values_list("subject_id", flat=True).first()
    detail = deal_detail(subject, viewer) if subject else Detail()
    if detail.place is None:
        return detail
    return replace(detail, place=replace(detail.place, link=link_to(Command, command_id)))
