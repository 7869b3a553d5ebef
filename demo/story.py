"""What the demo's briefs are expected to come to, and what the approver does on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

BRIEFS = Path(__file__).parent / "briefs"


@dataclass(frozen=True, kw_only=True)
class Tale:
    """One brief: the campaign's last state, sellers the approver turns down, and how many deals end how."""

    brief: str
    advertiser: str
    ends: str
    turned_down: tuple[str, ...] = field(default=())
    booked: int = 0
    rejected: int = 0
    failed: int = 0

    @property
    def path(self) -> Path:
        return BRIEFS / self.brief


STORY = (
    Tale(brief="1-lindqvist-cold-brew.yaml", advertiser="Lindqvist Coffee", ends="completed", booked=3),
    Tale(
        brief="2-tamarack-winter-boots.yaml",
        advertiser="Tamarack Outdoor",
        ends="completed",
        turned_down=("Quill Audio",),
        booked=1,
        rejected=1,
    ),
    Tale(brief="3-aldous-allergy-relief.yaml", advertiser="Aldous Pharma", ends="completed", booked=1),
    Tale(brief="4-brightwater-home-loans.yaml", advertiser="Brightwater Bank", ends="completed", booked=2),
    Tale(brief="5-halvorsen-autumn-service.yaml", advertiser="Halvorsen Motors", ends="failed", failed=1),
    Tale(brief="6-ostrom-credit-cards.json", advertiser="Ostrom Finance", ends="validation_failed"),
)
