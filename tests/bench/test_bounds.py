"""What `bench.bounds` sends: a body in which a secret begins at each character, and one like it without."""

from __future__ import annotations

import json

import pytest

from bench.bounds import ORDINARY, of_size
from tasks_app.adcp.hygiene import REDACTED, clean


@pytest.mark.parametrize("size", [1_500, 1_501, 20_000])
def test_both_have_as_many_bytes_and_one_is_all_secret(size: int) -> None:
    hostile, ordinary = of_size(size), of_size(size, ORDINARY)
    written = [json.dumps(body, separators=(",", ":")) for body in (hostile, ordinary)]
    assert [len(one.encode()) for one in written] == [size, size]
    assert clean(ordinary) == ordinary
    *registered, text = clean(hostile)
    assert all(one["push_notification_config"]["token"] == REDACTED for one in registered)
    assert text == REDACTED
