"""A Merkle tree over a list of leaves (RFC 6962, section 2.1), in memory that grows with its height alone.

A leaf is hashed with a byte 0 before it, a node with a byte 1, so that neither passes for the other. A list
splits at the largest power of two below its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256


def leaf_hash(leaf: bytes) -> bytes:
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True)
class _Node:
    size: int
    hash: bytes
    holds_proven: bool


class Tree:
    """Takes leaves one by one. `path` is the inclusion path of the leaf that was added as `proven`."""

    def __init__(self) -> None:
        self.size = 0
        self.path: list[bytes] = []
        self._peaks: list[_Node] = []

    def add(self, leaf: bytes, *, proven: bool = False) -> None:
        """The next leaf."""
        self.size += 1
        self._peaks.append(_Node(1, leaf_hash(leaf), proven))
        while len(self._peaks) > 1 and self._peaks[-2].size == self._peaks[-1].size:
            self._merge()

    def root(self) -> bytes:
        """The root over all leaves; ends the tree. Of no leaves: the hash of nothing."""
        while len(self._peaks) > 1:
            self._merge()
        return self._peaks[0].hash if self._peaks else sha256(b"").digest()

    def _merge(self) -> None:
        right, left = self._peaks.pop(), self._peaks.pop()
        if left.holds_proven:
            self.path.append(right.hash)
        elif right.holds_proven:
            self.path.append(left.hash)
        proven = left.holds_proven or right.holds_proven
        self._peaks.append(_Node(left.size + right.size, node_hash(left.hash, right.hash), proven))


def is_included(leaf: bytes, *, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether `path` shows that `leaf` is number `index` (from 0) of the `size` under `root` (RFC 9162,
    section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    first, last, reached = index, size - 1, leaf_hash(leaf)
    for sibling in path:
        if last == 0:
            return False
        if first & 1 or first == last:
            reached = node_hash(sibling, reached)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            reached = node_hash(reached, sibling)
        first, last = first >> 1, last >> 1
    return last == 0 and reached == root
