"""What the three sellers sell, and each product's own rule for a booking: one table, plain data.

Behaviour of a booking (`Product.rule`), from the least to the most demanding; of a buy with several
products the most demanding decides:

| rule        | answer to create_media_buy             | afterwards                                    |
|-------------|----------------------------------------|-----------------------------------------------|
| `at_once`   | completed, media buy confirmed         | nothing                                       |
| `review`    | submitted, a task                      | confirmed after 1 pace                        |
| `clearance` | working, a task, 25 %, then closes     | working 60 % after 0.5, confirmed after 1.25  |
| `question`  | input-required, a task and a question  | their representative settles it: 1.5 paces    |
| `refuse`    | rejected, with the reason              | nothing; no media buy exists                  |

Pace is `--pace` seconds. How the outcome travels is the seller's: norrland and cobalt send a webhook (RFC
9421, legacy HMAC) and answer polls; quill sends none. `Product.trim` books less than asked: that share of
the budget is not available and the flight starts a day later ("booked differently").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Rule = Literal["at_once", "review", "clearance", "question", "refuse"]
RULES: tuple[Rule, ...] = ("at_once", "review", "clearance", "question", "refuse")


@dataclass(frozen=True, kw_only=True)
class Price:
    """One pricing option. Money in units of `currency`; `fixed` or `floor`, never both; `impressions` are
    what a flat rate is expected to bring."""

    option_id: str
    model: str
    currency: str = "USD"
    fixed: float | None = None
    floor: float | None = None
    min_spend: float
    demographic: str | None = None
    impressions: int = 0


@dataclass(frozen=True, kw_only=True)
class Product:
    """One product with its terms. `reach_per_unit`: share of impressions that are new people."""

    product_id: str
    name: str
    description: str
    channel: str
    domain: str
    guaranteed: bool
    prices: tuple[Price, ...]
    countries: tuple[str, ...]
    rule: Rule
    formats: tuple[tuple[str, dict[str, object]], ...]
    words: tuple[str, ...]
    metrics: tuple[str, ...]
    measured_by: str
    makegood: tuple[str, ...] = ("additional_delivery", "credit")
    variance_percent: int = 10
    cancel_days: int = 2
    cancel_fee: float | None = None
    creative_days: int = 5
    hold_hours: int | None = None
    creatives: Literal["uploaded", "trafficked"] = "uploaded"
    trim: float = 0.0
    question: str = ""
    refusal: str = ""
    extra: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class House:
    """A seller: how it is called, what it speaks, how it signs webhooks, what it sells."""

    slug: str
    name: str
    domain: str
    protocol: Literal["mcp", "a2a"]
    webhooks: Literal["rfc9421", "hmac", "none"]
    timezone: str
    currencies: tuple[str, ...]
    payment_terms: str
    products: tuple[Product, ...]

    def product(self, product_id: str) -> Product | None:
        return next((p for p in self.products if p.product_id == product_id), None)


_IMAGES: tuple[tuple[str, dict[str, object]], ...] = (
    ("image", {"width": 300, "height": 250}),
    ("image", {"width": 970, "height": 250}),
)
_SPOT: tuple[tuple[str, dict[str, object]], ...] = (
    ("video_hosted", {"duration_ms_exact": 15000, "orientation": "horizontal"}),
    ("video_hosted", {"duration_ms_exact": 30000, "orientation": "horizontal"}),
)
_AUDIO: tuple[tuple[str, dict[str, object]], ...] = (("audio_hosted", {"duration_ms_exact": 30000}),)
_VIDEO_METRICS = ("impressions", "spend", "completed_views", "completion_rate")

NORRLAND = House(
    slug="norrland",
    name="Norrland Digital",
    domain="norrland-digital.example",
    protocol="mcp",
    webhooks="rfc9421",
    timezone="Europe/Stockholm",
    currencies=("USD", "EUR"),
    payment_terms="net_30",
    products=(
        Product(
            product_id="nor-display-news-infeed",
            name="News In-Feed, Nordic Dailies",
            description="In-feed display between the articles of eleven daily newspapers, all devices.",
            channel="display",
            domain="norrlandsposten.example",
            guaranteed=False,
            prices=(
                Price(option_id="infeed-cpm-usd", model="cpm", fixed=7.4, min_spend=1500),
                Price(option_id="infeed-cpm-eur", model="cpm", currency="EUR", fixed=6.9, min_spend=1400),
                Price(option_id="infeed-auction-usd", model="cpm", floor=3.2, min_spend=500),
            ),
            countries=("US", "SE", "NO", "FI", "DK"),
            rule="at_once",
            formats=_IMAGES,
            words=("news", "display", "awareness", "readers", "consideration"),
            metrics=("impressions", "spend", "clicks", "ctr"),
            measured_by="doubleverify.com",
        ),
        Product(
            product_id="nor-display-homepage",
            name="Front Page Takeover, Norrland Network",
            description="Top position on the front pages, sold by the day with a share of voice of one half.",
            channel="display",
            domain="norrlandsposten.example",
            guaranteed=True,
            prices=(
                Price(option_id="homepage-cpm-usd", model="cpm", fixed=14.5, min_spend=5000),
                Price(option_id="homepage-cpm-eur", model="cpm", currency="EUR", fixed=13.2, min_spend=4600),
                Price(option_id="homepage-day-usd", model="flat_rate", fixed=18000, min_spend=18000),
            ),
            countries=("US", "SE", "NO"),
            rule="at_once",
            formats=(("image", {"width": 1200, "height": 600}),),
            words=("launch", "takeover", "homepage", "premium", "display", "awareness"),
            metrics=("impressions", "spend", "clicks"),
            measured_by="doubleverify.com",
            cancel_days=14,
            cancel_fee=0.5,
            hold_hours=72,
            trim=0.057,
        ),
        Product(
            product_id="nor-olv-instream",
            name="In-Stream Video, Norrland Play",
            description="Pre- and mid-roll in professionally produced news and sport clips, non-skippable.",
            channel="olv",
            domain="norrlandplay.example",
            guaranteed=True,
            prices=(
                Price(option_id="instream-cpm-usd", model="cpm", fixed=21.0, min_spend=3000),
                Price(option_id="instream-cpm-eur", model="cpm", currency="EUR", fixed=19.4, min_spend=2800),
                Price(option_id="instream-cpcv-usd", model="cpcv", fixed=0.032, min_spend=3000),
            ),
            countries=("US", "SE", "NO", "FI", "DK"),
            rule="review",
            formats=_SPOT,
            words=("video", "olv", "sport", "completed", "views"),
            metrics=_VIDEO_METRICS,
            measured_by="integralads.com",
            cancel_days=7,
            cancel_fee=0.25,
            hold_hours=48,
            extra={"video_placement_types": ["instream"]},
        ),
    ),
)

COBALT = House(
    slug="cobalt",
    name="Cobalt Bay TV",
    domain="cobaltbaytv.example",
    protocol="a2a",
    webhooks="hmac",
    timezone="America/New_York",
    currencies=("USD",),
    payment_terms="net_45",
    products=(
        Product(
            product_id="cob-ctv-premium",
            name="Cobalt Stream, Premium Living Room",
            description="Guaranteed impressions in films and series on the living-room screen.",
            channel="ctv",
            domain="cobaltstream.example",
            guaranteed=True,
            prices=(Price(option_id="ctv-premium-cpm", model="cpm", fixed=34.0, min_spend=10000),),
            countries=("US", "CA"),
            rule="review",
            formats=_SPOT,
            words=("ctv", "streaming", "households", "premium", "awareness", "video"),
            metrics=_VIDEO_METRICS,
            measured_by="videoamp.com",
            cancel_days=14,
            cancel_fee=0.5,
            creative_days=7,
            hold_hours=48,
        ),
        Product(
            product_id="cob-ctv-run",
            name="Cobalt Stream, Run of Service",
            description="Remaining impressions across the free streaming channels, by auction.",
            channel="ctv",
            domain="cobaltstream.example",
            guaranteed=False,
            prices=(Price(option_id="ctv-run-floor", model="cpm", floor=16.0, min_spend=2500),),
            countries=("US",),
            rule="review",
            formats=_SPOT,
            words=("ctv", "streaming", "reach", "efficient", "video"),
            metrics=_VIDEO_METRICS,
            measured_by="videoamp.com",
        ),
        Product(
            product_id="cob-tv-primetime",
            name="Cobalt Bay Prime, Mon-Fri 8-11pm",
            description="Thirty-second spots in prime time on eleven stations, posted against persons 25-54.",
            channel="linear_tv",
            domain="cobaltbaytv.example",
            guaranteed=True,
            prices=(
                Price(
                    option_id="prime-cpp-p2554",
                    model="cpp",
                    fixed=410.0,
                    min_spend=15000,
                    demographic="P25-54",
                ),
            ),
            countries=("US",),
            rule="clearance",
            formats=_SPOT,
            words=("tv", "linear", "prime", "adults", "reach", "awareness"),
            metrics=("impressions", "spend", "grps"),
            measured_by="nielsen.com",
            cancel_days=28,
            cancel_fee=1.0,
            creative_days=10,
            hold_hours=48,
            creatives="trafficked",
        ),
        Product(
            product_id="cob-tv-lateshow",
            name="Late Show Sponsorship, Cobalt Bay",
            description="Billboards and two spots a night in the late show. One advertiser a category.",
            channel="linear_tv",
            domain="cobaltbaytv.example",
            guaranteed=True,
            prices=(
                Price(
                    option_id="lateshow-flat",
                    model="flat_rate",
                    fixed=24000,
                    min_spend=24000,
                    impressions=900_000,
                ),
            ),
            countries=("US",),
            rule="refuse",
            formats=_SPOT,
            words=("sponsorship", "late", "tv", "entertainment"),
            metrics=("impressions", "spend", "grps"),
            measured_by="nielsen.com",
            cancel_days=60,
            cancel_fee=1.0,
            creative_days=14,
            hold_hours=24,
            creatives="trafficked",
            refusal=(
                "Competitive separation: the category is held by another sponsor of the Late Show "
                "until the end of the season."
            ),
        ),
    ),
)

QUILL = House(
    slug="quill",
    name="Quill Audio",
    domain="quillaudio.example",
    protocol="mcp",
    webhooks="none",
    timezone="America/Chicago",
    currencies=("USD",),
    payment_terms="net_30",
    products=(
        Product(
            product_id="qui-audio-music",
            name="Quill Music, Streaming Audio",
            description="Thirty-second spots between songs with a companion banner, logged-in listeners.",
            channel="streaming_audio",
            domain="quillmusic.example",
            guaranteed=True,
            prices=(
                Price(option_id="music-cpm", model="cpm", fixed=18.5, min_spend=2000),
                Price(option_id="music-floor", model="cpm", floor=9.0, min_spend=1000),
            ),
            countries=("US", "CA", "GB"),
            rule="review",
            formats=_AUDIO,
            words=("audio", "music", "listeners", "commute", "reach"),
            metrics=("impressions", "spend", "completion_rate"),
            measured_by="tritondigital.com",
            cancel_days=7,
            cancel_fee=0.25,
            hold_hours=48,
            extra={"audio_distribution_types": ["music_streaming_service"]},
        ),
        Product(
            product_id="qui-audio-drivetime",
            name="Quill Live, Drive-Time Radio Streams",
            description="Live station streams from six to nine and four to seven, by auction.",
            channel="streaming_audio",
            domain="quilllive.example",
            guaranteed=False,
            prices=(Price(option_id="drivetime-floor", model="cpm", floor=11.0, min_spend=1000),),
            countries=("US",),
            rule="review",
            formats=_AUDIO,
            words=("audio", "radio", "drive", "commute", "local"),
            metrics=("impressions", "spend", "completion_rate"),
            measured_by="tritondigital.com",
            extra={"audio_distribution_types": ["web_radio"]},
        ),
        Product(
            product_id="qui-podcast-hostread",
            name="Host-Read Mid-Roll, The Morning Quill",
            description="Sixty seconds read by the host; the show's editor clears every script.",
            channel="podcast",
            domain="quillpodcasts.example",
            guaranteed=True,
            prices=(
                Price(option_id="hostread-cpm", model="cpm", fixed=28.0, min_spend=2500),
                Price(option_id="hostread-season", model="flat_rate", fixed=40000, min_spend=40000),
            ),
            countries=("US", "CA", "GB"),
            rule="question",
            formats=(("audio_hosted", {"duration_ms_exact": 60000}),),
            words=("podcast", "audio", "host", "trust", "consideration"),
            metrics=("impressions", "spend"),
            measured_by="podtrac.com",
            cancel_days=21,
            cancel_fee=0.5,
            creative_days=10,
            hold_hours=48,
            extra={"audio_distribution_types": ["podcast"]},
            question="Host-read: may the host speak in the first person about using the product?",
        ),
    ),
)

HOUSES: dict[str, House] = {house.slug: house for house in (NORRLAND, COBALT, QUILL)}
