"""Browsers as people know them."""

from __future__ import annotations

import pytest

from tasks_app.people.agents import browser_of

_KIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (f"Mozilla/5.0 (X11; Linux x86_64) {_KIT} Chrome/156.0.0.0 Safari/537.36", "Chrome 156 on Linux"),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {_KIT} Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
            "Edge 140 on Windows",
        ),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:144.0) Firefox/144.0", "Firefox 144 on macOS"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) Version/18.6 Mobile/15E148 Safari/604.1",
            "Safari 18 on iPhone",
        ),
        (f"Mozilla/5.0 (Linux; Android 15) {_KIT} Chrome/141.0.0.0 Mobile", "Chrome 141 on Android"),
        ("curl/8.14.1", "curl/8.14.1"),
        ("", "unknown"),
    ],
)
def test_what_a_browser_sends_is_told_in_words(agent: str, said: str) -> None:
    assert browser_of(agent) == said
