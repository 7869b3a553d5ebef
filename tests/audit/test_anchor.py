"""Anchor files: what is signed, who can tell, and what is refused."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks_app.lifecycle import anchor_keys
from tasks_app.lifecycle.anchor import Anchor, AnchorError, anchor_open, anchor_proof, anchor_write
from tasks_app.lifecycle.anchor_keys import KeyFileError, private_key, public_key, public_path
from tasks_app.lifecycle.chain import Head

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
HEADS = [
    Head(entity_type=kind, entity_id=uuid.UUID(int=number), seq=number, hash=bytes([number]) * 32)
    for kind in ("campaign", "deal")
    for number in range(1, 12)
]


@pytest.fixture
def anchor(tmp_path: Path) -> Path:
    anchor_write(HEADS, path=tmp_path / "anchor.jsonl", key=KEY)
    return tmp_path / "anchor.jsonl"


def opened(path: Path, key: Ed25519PrivateKey = KEY) -> Anchor:
    return anchor_open(path, key=key.public_key())


def signed(anchor: Anchor) -> tuple[Any, ...]:
    return (list(anchor.heads()), anchor.statement.at, anchor.statement.chains, anchor.statement.root)


def rewritten(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_what_is_read_is_what_was_signed(anchor: Path) -> None:
    read = opened(anchor)
    assert list(read.heads()) == HEADS
    assert read.statement.chains == len(HEADS)
    assert not read.is_proof


def test_of_an_empty_database_there_is_an_anchor(tmp_path: Path) -> None:
    anchor_write([], path=tmp_path / "empty", key=KEY)
    assert list(opened(tmp_path / "empty").heads()) == []


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), proof=st.booleans())
def test_no_changed_byte_changes_what_is_told(
    anchor: Path, tmp_path: Path, place: int, byte: int, proof: bool
) -> None:
    source = anchor
    if proof:
        source = tmp_path / "proof.json"
        told = anchor_proof(opened(anchor), entity_type="deal", entity_id=uuid.UUID(int=7))
        source.write_text(json.dumps(told) + "\n")
    data = bytearray(source.read_bytes())
    data[place % len(data)] = byte
    changed = tmp_path / "changed"
    changed.write_bytes(data)
    try:
        read = opened(changed)
    except AnchorError:
        return
    assert signed(read) == signed(opened(source))


def test_a_file_that_is_not_whole_or_not_ours_is_refused(anchor: Path, tmp_path: Path) -> None:
    lines = anchor.read_text().splitlines()
    swapped = [lines[1], lines[0], *lines[2:]]
    for wrong, why in (
        (lines[:-1], "not whole"),
        ([*lines, lines[0]], "after its statement"),
        ([*lines[:3], *lines[4:]], "not those that were signed"),
        (swapped, "not in order"),
        ([lines[0], *lines], "not in order"),
        ([], "not whole"),
        (["not JSON", *lines], "cannot be read"),
        (["[" * 9_000], "cannot be read"),
        (["7"], "neither a head nor a statement"),
        (['["deal","no id",1,"' + "0" * 64 + '"]'], "is no id"),
        (['["\\ud800","",1,""]'], "no head"),
        (['["deal"]'], "no head"),
        (["{}"], "not one of ours"),
        (['{"proof":1}'], "no proof"),
        (["x" * 20_000], "cannot be read"),
    ):
        with pytest.raises(AnchorError, match=why):
            opened(rewritten(tmp_path / "wrong", wrong))


def test_only_the_right_key_opens(anchor: Path) -> None:
    with pytest.raises(AnchorError, match="was signed with the key"):
        opened(anchor, Ed25519PrivateKey.generate())
    lines = anchor.read_text().splitlines()
    forged = {**json.loads(lines[-1]), "at": "2020-01-01T00:00:00+00:00"}
    with pytest.raises(AnchorError, match="signature is false"):
        opened(rewritten(anchor, [*lines[:-1], json.dumps(forged)]))


def test_a_proof_stands_alone(anchor: Path, tmp_path: Path) -> None:
    for head in HEADS:
        told = anchor_proof(opened(anchor), entity_type=head.entity_type, entity_id=head.entity_id)
        read = opened(rewritten(tmp_path / "proof", [json.dumps(told)]))
        assert read.is_proof
        assert list(read.heads()) == [head]
    with pytest.raises(AnchorError, match="is not in it"):
        anchor_proof(opened(anchor), entity_type="deal", entity_id=uuid.UUID(int=99))
    with pytest.raises(AnchorError, match="proof already"):
        anchor_proof(read, entity_type="deal", entity_id=uuid.UUID(int=1))


def test_a_proof_of_something_else_is_refused(anchor: Path, tmp_path: Path) -> None:
    told = anchor_proof(opened(anchor), entity_type="deal", entity_id=uuid.UUID(int=3))
    other = ["deal", str(uuid.UUID(int=3)), 3, "00" * 32]
    for forged in ({**told, "head": other}, {**told, "index": 0}, {**told, "path": told["path"][:-1]}):
        with pytest.raises(AnchorError, match="does not lead to the root"):
            opened(rewritten(tmp_path / "proof", [json.dumps(forged)]))
    with pytest.raises(AnchorError, match="list of hashes"):
        opened(rewritten(tmp_path / "proof", [json.dumps({**told, "path": [7]})]))


def test_an_anchor_is_never_overwritten_nor_left_half_written(anchor: Path, tmp_path: Path) -> None:
    before = anchor.read_bytes()
    with pytest.raises(FileExistsError):
        anchor_write(HEADS, path=anchor, key=KEY)
    assert anchor.read_bytes() == before

    def failing() -> Any:
        yield HEADS[0]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        anchor_write(failing(), path=tmp_path / "half", key=KEY)
    assert not (tmp_path / "half").exists()


def test_the_key_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key.pem"
    made = private_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert private_key(path).private_bytes_raw() == made.private_bytes_raw()
    assert public_key(public_path(path)) == made.public_key()
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match="read by others"):
        private_key(path)


def test_processes_that_race_for_the_first_key_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key.pem"
    with ThreadPoolExecutor(8) as pool:
        read = set(pool.map(lambda _: private_key(path).private_bytes_raw(), range(32)))
    assert len(read) == 1
    assert public_key(public_path(path)) == private_key(path).public_key()
    assert {one.name for one in path.parent.iterdir()} == {"key.pem", "key.pem.pub"}


def test_a_key_that_was_not_made_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key.pem"

    def cut_off(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(anchor_keys.serialization, "NoEncryption", cut_off)
        with pytest.raises(KeyboardInterrupt):
            private_key(path)
    assert not list(tmp_path.iterdir())
    assert private_key(path).public_key() == public_key(public_path(path))


def test_what_is_no_key_is_refused_without_being_told(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text("s3cret")
    path.chmod(0o600)
    for read in (private_key, public_key):
        with pytest.raises(KeyFileError) as refused:
            read(path)
        assert "s3cret" not in str(refused.value)
