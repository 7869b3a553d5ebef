"""The tree against RFC 6962's own definition, and its inclusion paths."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_app.lifecycle.merkle import Tree, is_included, leaf_hash, node_hash

pytestmark = pytest.mark.deep

# The leaves and roots that implementations of Certificate Transparency are commonly checked with.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"
    )
]  # fmt: skip
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def defined(leaves: list[bytes]) -> bytes:
    """The root, as RFC 6962, 2.1 says it."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaf_hash(leaves[0])
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(defined(leaves[:split]), defined(leaves[split:]))


def grown(leaves: list[bytes], proven: int = -1) -> tuple[bytes, list[bytes]]:
    tree = Tree()
    for index, leaf in enumerate(leaves):
        tree.add(leaf, proven=index == proven)
    root = tree.root()
    assert tree.size == len(leaves)
    return root, tree.path


@pytest.mark.parametrize("size", ROOTS)
def test_known_roots(size: int) -> None:
    assert grown(LEAVES[:size])[0].hex() == ROOTS[size]


@given(st.lists(st.binary(max_size=8), max_size=70))
def test_the_root_is_the_defined_one(leaves: list[bytes]) -> None:
    assert grown(leaves)[0] == defined(leaves)


@given(st.integers(1, 70), st.data())
def test_a_path_proves_its_leaf_at_its_place_and_nothing_else(size: int, data: st.DataObject) -> None:
    leaves = [b"%d" % number for number in range(size)]
    index = data.draw(st.integers(0, size - 1))
    root, path = grown(leaves, proven=index)

    assert is_included(leaves[index], index=index, size=size, path=path, root=root)

    for other in range(size + 1):
        if other != index:
            assert not is_included(leaves[index], index=other, size=size, path=path, root=root)
    assert not is_included(b"other", index=index, size=size, path=path, root=root)
    assert not is_included(leaves[index], index=index, size=size, path=[*path, root], root=root)
    assert not is_included(leaves[index], index=index, size=size, path=path[:-1], root=root) or size == 1
    assert not is_included(leaves[index], index=-1, size=size, path=path, root=root)
