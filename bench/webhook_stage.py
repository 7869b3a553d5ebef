"""What `bench.operations_webhooks` runs on: a private embedded PostgreSQL as it is delivered (fsync and
synchronous_commit on), a seller of each kind with purchases that wait for their webhooks, and both servers.
`python -m bench.webhook_stage JWKS_URL COUNT` fills it and answers with the purchases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import requests
from cryptography.hazmat.primitives.asymmetric import ed25519

from bench import server, webhook_load
from bench.sellers import seller_made
from bench.webhook_load import Target
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR
from demo.ports import free_port

_SELLERS = ("bench", "bench-signed")
_UVICORN = "exec uvicorn {app} --host 127.0.0.1 --port {port} --timeout-graceful-shutdown 3 --no-access-log"
_LIMIT_S = 60
_REFERENCE_TABLE = """
create table if not exists bench_delivery (
    id bigint generated always as identity primary key, key text not null unique, body jsonb not null,
    at timestamptz not null default now()
);
grant select, insert on bench_delivery to flightdeck_app;
"""


@dataclass
class Stage:
    """Where each endpoint is, what waits for a webhook there, and the signed seller's key."""

    env: dict[str, str]
    server: str
    ours: str
    signed: str
    reference: str
    key: ed25519.Ed25519PrivateKey
    targets: dict[str, list[Target]]


@contextmanager
def opened(*, count: int, signed: int) -> Iterator[Stage]:
    """Both servers on one database, with `count` purchases of the seller with a secret and `signed` of the
    other."""
    key = ed25519.Ed25519PrivateKey.generate()
    ports = [free_port(), free_port()]
    more = {
        "FLIGHTDECK_PUBLIC_URL": f"http://127.0.0.1:{ports[0]}",
        # Counted as ever, but one seller sends more here than a seller ever does.
        "FLIGHTDECK_WEBHOOK_SELLER_CAP": "1000000000",
        "FLIGHTDECK_WEBHOOK_SELLER_BYTES": str(2**40),
        "FLIGHTDECK_WEBHOOK_NONCES_PER_KEY": "1000000",
        "BENCH_SECRET": webhook_load.SECRET,
    }
    with ExitStack() as closing:
        on = closing.enter_context(server.opened("bench-webhooks", **more))
        running, env = on.running, on.env
        jwks = closing.enter_context(published(key))
        targets = _filled(env, jwks, count, signed)
        with psycopg.connect(running.urls.owner, autocommit=True) as owner:
            owner.execute(_REFERENCE_TABLE)
            owner.execute("vacuum analyze")
        nowhere = closing.enter_context(Path(os.devnull).open("w"))
        group = closing.enter_context(ProcessGroup(output=nowhere))
        apps = ("config.asgi:application", "bench.webhook_reference:application")
        for app, port in zip(apps, ports, strict=True):
            command = ["/bin/sh", "-c", _UVICORN.format(app=app, port=port)]
            group.start(app, command, env=env, cwd=BASE_DIR)
        urls = [f"http://127.0.0.1:{port}/webhooks/adcp/{{}}/" for port in ports]
        for url in urls:
            until_answers(group, url.format("bench"))
        yield Stage(
            env=env,
            server=on.words(),
            ours=urls[0].format(_SELLERS[0]),
            signed=urls[0].format(_SELLERS[1]),
            reference=urls[1].format("bench"),
            key=key,
            targets=targets,
        )


@contextmanager
def published(key: ed25519.Ed25519PrivateKey) -> Iterator[str]:
    """The signed seller's key set on the web; it publishes no list of revoked keys."""
    jwk = {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "use": "sig",
        "key_ops": ["verify"],
        "adcp_use": "request-signing",
        "kid": "bench",
        "x": webhook_load._b64url(key.public_key().public_bytes_raw()),
    }
    body = json.dumps({"keys": [jwk]}).encode()

    class Published(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/jwks.json"
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body) if found else 0))
            self.end_headers()
            self.wfile.write(body if found else b"")

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the bench has its own lines."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Published) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/jwks.json"
        server.shutdown()


def _filled(env: dict[str, str], jwks: str, count: int, signed: int) -> dict[str, list[Target]]:
    print(f"== making {count + signed} purchases", flush=True)
    command = [sys.executable, "-m", "bench.webhook_stage", jwks, str(count), str(signed)]
    done = subprocess.run(command, check=True, cwd=BASE_DIR, env=env, stdout=subprocess.PIPE, text=True)
    told: dict[str, list[list[str]]] = json.loads(done.stdout)
    return {seller: [Target(*one) for one in rows] for seller, rows in told.items()}


def until_answers(group: ProcessGroup, url: str) -> None:
    """Wait for the process that serves `url`. Raises SystemExit."""
    for _ in range(_LIMIT_S * 10):
        try:
            requests.get(url, timeout=5)
            return
        except requests.ConnectionError:
            threading.Event().wait(0.1)
    raise SystemExit(f"{url} does not answer")


def fill(jwks: str, counts: dict[str, int]) -> dict[str, list[list[str]]]:
    """Purchases submitted to the two sellers, as [operation id, task id, token] by seller."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from tasks_app.sellers.models import Seller

    Mode = Seller.WebhookMode  # noqa: N806 (a class)
    modes = dict(zip(_SELLERS, (Mode.HMAC, Mode.RFC9421), strict=True))
    answer = {}
    for slug, mode in modes.items():
        seller = seller_made(
            name=slug,
            slug=slug,
            idempotency_ttl_s=86400,
            webhook_mode=mode,
            webhook_secret=webhook_load.SECRET if mode == Mode.HMAC else None,
            jwks_url=jwks if mode == Mode.RFC9421 else "",
        )
        answer[slug] = _purchases(seller, counts[slug])
    return answer


def _purchases(seller: Any, count: int) -> list[list[str]]:
    from datetime import timedelta

    from django.db.models import F
    from django.db.models.functions import Concat

    from tasks_app import clock, ids
    from tasks_app.lifecycle.transitions import create_many, transition_many
    from tasks_app.operations.models import Operation
    from tasks_app.operations.tokens import webhook_token_of

    deadline = clock.now() + timedelta(hours=24)
    rows = [
        Operation(
            id=ids.new_id(),
            reference=f"B-{seller}-{number}"[-20:],
            purpose=f"bench:{seller}:{number}",
            task_type="create_media_buy",
            seller=seller,
            requested_by="system",
            request_text="{}",
            request={},
            idempotency_key=f"{seller}-{number:020}",
            deadline_at=deadline,
        )
        for number in range(count)
    ]
    for row in rows:
        row.webhook_token = webhook_token_of(row.pk)
    for start in range(0, count, 2000):
        create_many(rows[start : start + 2000], actor="system", reason="A bench")
    mine = Operation.objects.filter(seller=seller)
    for to in ("calling_adcp", "submitted"):
        transition_many(mine, to, actor="system")
    mine.update(task_id=Concat(F("reference"), F("purpose")))
    return [[str(row.pk), f"{row.reference}{row.purpose}", row.webhook_token or ""] for row in rows]


if __name__ == "__main__":
    wanted = dict(zip(_SELLERS, map(int, sys.argv[2:4]), strict=True))
    print(json.dumps(fill(sys.argv[1], wanted)))
