"""Channels, and the words that people use for them."""

from __future__ import annotations

from tasks_app.assistant.tools.facts import Fact, foreign_fact

# AdCP's channels, and what people call them.
CHANNEL_WORDS: dict[str, tuple[str, ...]] = {
    "display": ("display", "banner"),
    "olv": ("olv", "online video", "video"),
    "social": ("social",),
    "search": ("search",),
    "ctv": ("ctv", "connected TV", "TV"),
    "linear_tv": ("linear TV", "TV"),
    "radio": ("radio", "audio"),
    "streaming_audio": ("streaming audio", "audio"),
    "podcast": ("podcast", "audio"),
    "dooh": ("dooh", "digital out of home", "out of home"),
    "ooh": ("ooh", "out of home"),
    "print": ("print",),
    "cinema": ("cinema",),
    "email": ("email",),
    "gaming": ("gaming",),
    "retail_media": ("retail media",),
    "influencer": ("influencer",),
    "affiliate": ("affiliate",),
    "product_placement": ("product placement",),
    "sponsored_intelligence": ("sponsored intelligence",),
}


def channels_named(word: str) -> list[str]:
    """Return the channels that a word names. A channel's own name names it alone."""
    named = " ".join(word.lower().replace("_", " ").split())
    exact = [channel for channel in CHANNEL_WORDS if channel.replace("_", " ") == named]
    return exact or [
        channel for channel, words in CHANNEL_WORDS.items() if named in (one.lower() for one in words)
    ]


def channel_fact(channel: str) -> Fact:
    """Return a channel; one that AdCP does not know is a word of its seller."""
    return Fact(channel, channel) if channel in CHANNEL_WORDS else foreign_fact(channel)
