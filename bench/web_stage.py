"""One web process as it is delivered, on a private embedded PostgreSQL (fsync and synchronous_commit on),
with somebody who is signed in there and purchases that wait for their webhooks: what `bench.flood` and
`bench.bounds` run on. `python -m bench.web_stage JWKS_URL COUNT` fills it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import ed25519

from bench import server, webhook_load, webhook_stage
from bench.webhook_load import Target
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR
from demo.ports import free_port

if TYPE_CHECKING:
    from tasks_app.people.models import User

APPLICATION = "config.asgi:application"
_SERVED = "exec python -m config.web --app {app} --port {port}"
TEAM = "Bench"


@dataclass(frozen=True)
class Stage:
    """Where the product is, what its processes need, a session of an administrator's, and what waits for a
    webhook there."""

    words: str
    url: str
    env: dict[str, str]
    session: str
    targets: Iterator[Target]

    @property
    def webhooks(self) -> str:
        """Where the seller of the purchases delivers."""
        return f"{self.url}/webhooks/adcp/bench/"


@contextmanager
def opened(name: str, *, purchases: int, app: str = APPLICATION) -> Iterator[Stage]:
    """The server under var/`name`, with so many purchases that wait; `app` is what the web process serves."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        "FLIGHTDECK_PUBLIC_URL": url,
        "FLIGHTDECK_SECOND_FACTOR_ROLES": "",
        "BENCH_SECRET": webhook_load.SECRET,
    }
    with ExitStack() as closing:
        on = closing.enter_context(server.opened(name, **env))
        print("== making purchases", flush=True)
        jwks = closing.enter_context(webhook_stage.published(ed25519.Ed25519PrivateKey.generate()))
        command = [sys.executable, "-m", "bench.web_stage", jwks, str(purchases)]
        done = subprocess.run(
            command, check=True, cwd=BASE_DIR, env=on.env, stdout=subprocess.PIPE, text=True
        )
        made = json.loads(done.stdout)
        nowhere = closing.enter_context(Path(os.devnull).open("w"))
        group = closing.enter_context(ProcessGroup(output=nowhere))
        served = _SERVED.format(app=app, port=port)
        group.start("web", ["/bin/sh", "-c", served], env=on.env, cwd=BASE_DIR)
        webhook_stage.until_answers(group, f"{url}/webhooks/adcp/bench/")
        targets = iter([Target(*one) for one in made["targets"]])
        yield Stage(words=on.words(), url=url, env=on.env, session=made["session"], targets=targets)


def signed_in(username: str) -> tuple[User, str]:
    """A new administrator of the bench's team, and the key of a session of theirs."""
    from django.contrib.auth.models import Group
    from django.test import Client

    from tasks_app.people.actors import SYSTEM, actor_ensure
    from tasks_app.people.models import Team, User
    from tasks_app.people.rights import rights_recorded

    person = User(username=username, is_staff=True)
    with rights_recorded(person, by=SYSTEM):
        person.save()
        person.groups.set([Group.objects.get(name="Administrator")])
        person.teams.set([Team.objects.get_or_create(name=TEAM)[0]])
    actor_ensure(user=person)
    browser = Client()
    browser.force_login(person, backend="tasks_app.people.holders.RoleBackend")
    return person, browser.cookies["sessionid"].value


def main(jwks: str, count: int) -> None:
    targets = webhook_stage.fill(jwks, {"bench": count, "bench-signed": 0})
    print(json.dumps({"targets": targets["bench"], "session": signed_in("bench")[1]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
