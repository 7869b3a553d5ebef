"""`manage.py ask`: one question to the assistant, answered in this process."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from django.core.management.base import CommandParser

from tasks_app.assistant.errors import AssistantRefusedError
from tasks_app.assistant.proposals import confirm_proposal
from tasks_app.assistant.runner import answer_turn, model_client
from tasks_app.assistant.selectors import proposal_data, turn_data
from tasks_app.assistant.services import ask
from tasks_app.assistant.types import Channel
from tasks_app.management.base import DeskCommand, refuse, table, user_named
from tasks_app.people.models import User


class Command(DeskCommand):
    help = "Asks the assistant with the rights of a user. Without --session a new conversation begins."
    exit_codes = "Exit code 0: answered; 1: it could not be answered; 2: refused, and nothing was asked."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("question", nargs="?", default="")
        parser.add_argument("--user", required=True, help="the login whose rights hold")
        parser.add_argument("--session", default="", help="the conversation that goes on, by its id")
        parser.add_argument(
            "--confirm", default="", metavar="ID", help="confirm a proposal instead of asking"
        )

    def run(self, **options: Any) -> None:
        user = user_named(options["user"])
        if options["confirm"]:
            self._confirm(user, options["confirm"])
            return
        try:
            turn = ask(
                user=user,
                question=options["question"],
                channel=Channel.COMMAND,
                session_id=uuid.UUID(options["session"]) if options["session"] else None,
            )
        except ValueError:
            refuse("--session is the id of a conversation.")
        except AssistantRefusedError as error:
            refuse(str(error))
        asyncio.run(answer_turn(turn, model_client()))
        data = turn_data(turn.pk)
        details = data["table"]
        shown = ["", *table(details["columns"], details["rows"])] if details else []
        confirms = [f"To confirm: --confirm {one['id']}" for one in data["proposals"]]
        self.answer(data, [data["reply"] or data["error"], *shown, *confirms])
        if data["error"]:
            self.found(data["error"])

    def _confirm(self, user: User, named: str) -> None:
        try:
            proposal = confirm_proposal(user=user, proposal_id=uuid.UUID(named))
        except ValueError:
            refuse("--confirm takes the id of a proposal.")
        except AssistantRefusedError as error:
            refuse(str(error))
        data = proposal_data(proposal)
        waits = f"It waits for the approval {data['approval']}." if data["approval"] else "It is done."
        subject = [f"See {data['subject']['reference']}."] if data["subject"] else []
        self.answer(data, [f"Asked for: {proposal.summary}", waits, *subject])
