"""Plain django-q2 on its ORM broker: `python -m bench.jobs.peers.django_q2_peer (schema|worker|put)`.

Chains are its own (`async_chain`: the monitor saves each result and puts the next task in). Several messages
per look at the broker, as its documentation says for many short tasks; results are kept without pruning.
"""

from __future__ import annotations

import os
import sys
import time

import django
import environ
from django.conf import settings

from bench.jobs import CHAIN, orders

STEP = "bench.jobs.peers.django_q2_step.step"
NAP = "bench.jobs.peers.django_q2_step.nap"
_LOOK_AGAIN_S = 0.001


def configure() -> None:
    """A Django of its own, with django-q2 alone in it."""
    database = {**environ.Env.db_url_config(os.environ["PEER_DATABASE_URL"]), "CONN_MAX_AGE": None}
    settings.configure(
        SECRET_KEY=os.environ["PEER_SECRET_KEY"],
        DATABASES={"default": database},
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_q"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        LOGGING={
            "version": 1,
            "disable_existing_loggers": False,
            "loggers": {"django-q": {"level": "ERROR"}},
        },
        Q_CLUSTER={
            "name": "bench",
            "orm": "default",
            "workers": int(os.environ.get("BENCH_WORKERS", "1")),
            "bulk": 10,
            "save_limit": 0,
            "poll": 0.05,
            "log_level": "ERROR",
            "timeout": 60,
            "retry": 120,
            "scheduler": False,
            "catch_up": False,
        },
    )
    django.setup()


def put(jobs: int) -> None:
    from django.db import transaction
    from django_q.tasks import async_chain

    with transaction.atomic():
        for _ in range(jobs):
            async_chain([(STEP, (number,)) for number in range(CHAIN)])


def fanout(items: int) -> orders.Answer:
    """Milliseconds from the call that puts a group of so many in to the last one's kept result."""
    from django.db import transaction
    from django_q.tasks import async_task, count_group

    began = time.time()
    group = f"fan-{began}"
    with transaction.atomic():
        for number in range(items):
            async_task(NAP, number, group=group)
    while count_group(group) < items:
        time.sleep(_LOOK_AGAIN_S)
    return {"ms": 1000 * (time.time() - began)}


if __name__ == "__main__":
    configure()
    from django.core.management import call_command

    if sys.argv[1] == "schema":
        call_command("migrate", verbosity=0)
    elif sys.argv[1] == "worker":
        call_command("qcluster")
    else:
        orders.serve({"chain": put, "fanout": fanout})
