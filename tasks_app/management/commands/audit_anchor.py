"""`manage.py audit_anchor`: signs the ends of all chains, for a copy that is kept elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.management.base import CommandParser

from tasks_app import clock
from tasks_app.lifecycle.anchor import AnchorError, Statement, anchor_open, anchor_proof, anchor_write
from tasks_app.lifecycle.anchor_keys import (
    KeyFileError,
    key_path,
    private_key,
    public_key,
    public_path,
    signing_key,
)
from tasks_app.lifecycle.chain import Head
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import Found, verify_trail
from tasks_app.management.base import DeskCommand, refuse
from tasks_app.management.trail import entity_named


class _BrokenTrailError(Exception):
    def __init__(self, found: Found) -> None:
        self.found = found
        super().__init__(f"{found.entity_type} {found.entity_id}: {found.verification.problem}")


class Command(DeskCommand):
    help = (
        "Verifies the trail, signs a Merkle root over the ends of all chains (ed25519), and writes both into"
        " a file. Keep a copy where nobody who runs this system can reach it; `verify_audit --anchor` then"
        " shows whatever was rewritten since. With --proof it cuts the proof of one entity out of that file."
    )
    exit_codes = "Exit code 0: done; 1: the trail does not hold, nothing was signed; 2: refused."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--out", metavar="FILE", default="", help="the new anchor (default: in var/anchors/)"
        )
        parser.add_argument(
            "--key",
            metavar="FILE",
            default="",
            help="the private key, made on first use (default: a setting)",
        )
        parser.add_argument(
            "--proof", metavar="TYPE:ID", default="", help="print the proof that this entity is in the anchor"
        )
        parser.add_argument("--of", metavar="FILE", default="", help="with --proof: an anchor that is there")

    def run(self, **options: Any) -> None:
        if options["of"] and (options["out"] or not options["proof"]):
            refuse("--of goes with --proof, and without --out.")
        key = Path(options["key"] or key_path())
        try:
            if not options["proof"]:
                self._tell(*_sign(options["out"], private_key(key)))
                return
            kind, entity_id = entity_named(options["proof"])
            if entity_id is None:
                refuse("A proof is of one entity: TYPE:ID.")
            if not options["of"] and not _has_trail(kind, entity_id):
                refuse(
                    f"There is no proof: nothing is recorded of {options['proof']}, and nothing was signed."
                )
            # The key that tells of it is read before anything is signed.
            path = Path(options["of"]) if options["of"] else _sign(options["out"], signing_key(key))[0]
            anchor = anchor_open(path, key=public_key(public_path(key)))
            told = anchor_proof(anchor, entity_type=kind, entity_id=entity_id)
            self.answer(told, [json.dumps(told)])
        except _BrokenTrailError as error:
            self.found(f"The trail does not hold, nothing was signed: {error}. Run verify_audit.")
        except AnchorError as error:
            refuse(f"There is no proof: of {path}, {error}.")
        except KeyFileError as error:
            refuse(f"{error}.")
        except FileExistsError as error:
            refuse(f"{error.filename} is there already; an anchor is never overwritten.")
        except OSError as error:
            refuse(f"{error.filename}: {error.strerror}.")

    def _tell(self, path: Path, statement: Statement) -> None:
        self.answer(
            {"file": str(path), **statement.as_json()},
            [
                f"{statement.chains} chains anchored at {statement.at} in {path}",
                f"root {statement.root}",
                f"signed with the key {statement.key}",
                "Keep a copy of the file, and of the public key, outside this system.",
            ],
        )


def _sign(out: str, key: Ed25519PrivateKey) -> tuple[Path, Statement]:
    path = Path(out) if out else settings.VAR_DIR / "anchors" / f"{clock.now():%Y%m%dT%H%M%S.%fZ}.jsonl"
    if not out:
        path.parent.mkdir(parents=True, exist_ok=True)
    return path, anchor_write(_heads(), path=path, key=key)


def _has_trail(kind: str, entity_id: UUID) -> bool:
    return AuditEntry.objects.filter(entity_type=kind, entity_id=entity_id).exists()


def _heads() -> Iterator[Head]:
    """The end of every chain, of one moment. Raises _BrokenTrailError: what does not hold is not signed."""
    for found in verify_trail():
        checked = found.verification
        if not checked.ok:
            raise _BrokenTrailError(found)
        yield Head(
            entity_type=found.entity_type, entity_id=found.entity_id, seq=checked.entries, hash=checked.head
        )
