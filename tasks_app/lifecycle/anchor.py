"""Anchors: a signed Merkle root over the ends of all chains, to be kept outside the database.

An anchor is a file of JSON Lines: a head a line, ascending, `["deal","<id>",3,"<hash>"]`, and last the
statement, `{"anchor":1,"at":…,"chains":…,"root":…,"key":…,"signature":…}`. A proof is one line: one head,
its place and path in the tree, and the statement of the anchor it was cut from; it is used like an anchor
of that one chain. What is signed (ed25519) is `Statement.signed`; a leaf of the tree is a head's netstrings.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import uuid
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tasks_app import clock
from tasks_app.lifecycle.anchor_keys import fingerprint
from tasks_app.lifecycle.body import netstring
from tasks_app.lifecycle.chain import Head
from tasks_app.lifecycle.merkle import Tree, is_included

_FORMAT = 1
_LINE = 10_000  # characters; ours are about a hundred, a proof's some thousand
_HASH = re.compile(r"[0-9a-f]{64}")
_KIND = re.compile(r"[ -~]{1,32}")


class AnchorError(Exception):
    """A file is no anchor, or not one that was signed with this key. The text says why."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What is signed of an anchor. `at`: ISO 8601, UTC; `root`, `key`: hex; `signature`: base64."""

    at: str
    chains: int
    root: str
    key: str
    signature: str = ""

    @property
    def signed(self) -> bytes:
        """The bytes under the signature."""
        return f"flightdeck anchor {_FORMAT}\n{self.at}\n{self.chains}\n{self.root}\n".encode()

    def as_json(self) -> dict[str, Any]:
        return {"anchor": _FORMAT, **vars(self)}


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """An anchor or a proof that was read and found signed: its statement, and how to read its heads."""

    statement: Statement
    path: Path
    is_proof: bool

    def heads(self) -> Iterator[Head]:
        """Its heads, ascending, read from the file."""
        with closing(_lines(self.path)) as lines:
            for line in lines:
                if isinstance(line, list):
                    yield _head(line)
                elif self.is_proof:
                    yield _head(line["head"])


def anchor_write(heads: Iterable[Head], *, path: Path, key: Ed25519PrivateKey) -> Statement:
    """Write a new anchor over `heads` (ascending). Raises FileExistsError: no anchor is ever overwritten;
    OSError. Whatever else is raised, no file is left."""
    with path.open("x", encoding="utf-8") as file:
        try:
            statement = _write(heads, file, key)
        except BaseException:  # half an anchor is none
            path.unlink()
            raise
    return statement


def anchor_open(path: Path, *, key: Ed25519PublicKey) -> Anchor:
    """Read an anchor or a proof whole. Raises AnchorError unless it was signed with the private half of `key`
    and its heads are those that were signed; OSError."""
    tree, last, statement, is_proof = Tree(), None, None, False
    with closing(_lines(path)) as lines:
        for line in lines:
            if statement is not None:
                raise AnchorError("there is something after its statement")
            if isinstance(line, list):
                head = _head(line)
                if last is not None and head.key <= last:
                    raise AnchorError(f"its heads are not in order at {head.entity_type} {head.entity_id}")
                last = head.key
                tree.add(_leaf(head))
            else:
                is_proof = "proof" in line
                if is_proof and tree.size:
                    raise AnchorError("it is neither an anchor nor a proof")
                statement = _proven(line) if is_proof else _statement(line)
    if statement is None:
        raise AnchorError("it has no statement: it is not whole")
    _check_signature(statement, key)
    if not is_proof and (statement.chains, statement.root) != (tree.size, tree.root().hex()):
        raise AnchorError("its heads are not those that were signed")
    return Anchor(statement=statement, path=path, is_proof=is_proof)


def anchor_proof(anchor: Anchor, *, entity_type: str, entity_id: uuid.UUID) -> dict[str, Any]:
    """The proof that an entity's head is in `anchor`: one JSON object, checked by `anchor_open`. Raises
    AnchorError where the entity is not in it, or `anchor` is a proof itself."""
    if anchor.is_proof:
        raise AnchorError("it is a proof already")
    tree, found, index = Tree(), None, 0
    for head in anchor.heads():
        wanted = (head.entity_type, head.entity_id) == (entity_type, entity_id)
        if wanted:
            found, index = head, tree.size
        tree.add(_leaf(head), proven=wanted)
    if found is None:
        raise AnchorError(f"{entity_type} {entity_id} is not in it")
    tree.root()  # completes the path
    return {
        "proof": _FORMAT,
        "head": _told(found),
        "index": index,
        "path": [node.hex() for node in tree.path],
        "statement": anchor.statement.as_json(),
    }


def _write(heads: Iterable[Head], file: TextIO, key: Ed25519PrivateKey) -> Statement:
    tree = Tree()
    for head in heads:
        tree.add(_leaf(head))
        file.write(json.dumps(_told(head), separators=(",", ":")) + "\n")
    statement = Statement(
        at=clock.now().isoformat(),
        chains=tree.size,
        root=tree.root().hex(),
        key=fingerprint(key.public_key()),
    )
    signature = base64.b64encode(key.sign(statement.signed)).decode()
    statement = Statement(**{**vars(statement), "signature": signature})
    file.write(json.dumps(statement.as_json(), separators=(",", ":")) + "\n")
    return statement


def _leaf(head: Head) -> bytes:
    told = head.entity_type.encode(), str(head.entity_id).encode(), b"%d" % head.seq, head.hash
    return b"".join(map(netstring, told))


def _told(head: Head) -> list[Any]:
    return [head.entity_type, str(head.entity_id), head.seq, head.hash.hex()]


def _lines(path: Path) -> Generator[Any, None, None]:
    """Each line's JSON, a list or a dictionary. Raises AnchorError."""
    with path.open(encoding="utf-8") as file:
        try:
            while line := file.readline(_LINE):
                value = json.loads(line)
                if not isinstance(value, list | dict):
                    raise ValueError("neither a head nor a statement")
                yield value
        except (ValueError, RecursionError) as error:
            raise AnchorError(f"it cannot be read: {error}") from None


def _head(told: Any) -> Head:
    match told:
        case [str(kind), str(pk), int(seq), str(digest)] if _KIND.fullmatch(kind) and _HASH.fullmatch(digest):
            try:
                entity_id = uuid.UUID(pk)
            except ValueError:
                raise AnchorError(f"{pk[:40]!r} is no id") from None
            return Head(entity_type=kind, entity_id=entity_id, seq=seq, hash=bytes.fromhex(digest))
    raise AnchorError("a line is no head")


def _statement(told: Any) -> Statement:
    match told:
        case {"anchor": 1, "at": str(at), "chains": int(chains), "root": str(root), "key": str(key),
              "signature": str(signature)} if _HASH.fullmatch(root):  # fmt: skip
            try:
                datetime.fromisoformat(at)
            except ValueError:
                raise AnchorError(f"{at[:40]!r} is no time") from None
            return Statement(at=at, chains=chains, root=root, key=key, signature=signature)
    raise AnchorError("its statement is not one of ours")


def _proven(told: Any) -> Statement:
    match told:
        case {"proof": 1, "head": head, "index": int(index), "path": [*path], "statement": statement}:
            stated = _statement(statement)
            if not all(isinstance(node, str) and _HASH.fullmatch(node) for node in path):
                raise AnchorError("its path is no list of hashes")
            nodes = [bytes.fromhex(node) for node in path]
            leaf, root = _leaf(_head(head)), bytes.fromhex(stated.root)
            if is_included(leaf, index=index, size=stated.chains, path=nodes, root=root):
                return stated
            raise AnchorError("its path does not lead to the root that was signed")
    raise AnchorError("it is no proof of ours")


def _check_signature(statement: Statement, key: Ed25519PublicKey) -> None:
    if statement.key != fingerprint(key):
        raise AnchorError(f"it was signed with the key {statement.key[:64]!r}, not with {fingerprint(key)}")
    try:
        key.verify(base64.b64decode(statement.signature, validate=True), statement.signed)
    except (InvalidSignature, binascii.Error):
        raise AnchorError("its signature is false") from None
