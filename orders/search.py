"""Finding deals by ids, and by the beginning of an advertiser's or a product's name."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Exists, OuterRef, Q

from orders.models import DealLine
from tasks_app.desk.search import MOST, Hit, Wanted, finder_register, hits_of, rows_of
from tasks_app.people.models import Advertiser, User
from tasks_app.people.scope import visible
from tasks_app.sellers.models import Seller


def register() -> None:
    """Called when the application starts."""
    finder_register(find)


def find(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    """Find by media_buy_id, package_id, our id of a line, advertiser or product."""
    rows, text = rows_of("deal", viewer), wanted.text
    # The unique index begins with the seller: with all of them named it answers at once.
    bought = rows.filter(seller__in=Seller.objects.order_by().values("pk"), media_buy_id=text)
    yield from hits_of("deal", bought.exclude(media_buy_id=""), "media_buy_id")
    packed = Q(package_id=text) & ~Q(package_id="")
    yield from hits_of("deal", rows.filter(pk__in=_deals(packed)), "package_id")
    if wanted.id is not None:
        yield from hits_of("deal", rows.filter(pk__in=_deals(Q(pk=wanted.id))), "line id")
    advertisers = visible(Advertiser.objects.order_by(), viewer).filter(name__istartswith=text)
    known = list(advertisers.values_list("pk", flat=True)[:MOST])
    yield from hits_of("deal", rows.filter(advertiser__in=known).order_by("-pk"), "advertiser", exact=False)
    lines = DealLine.objects.filter(deal=OuterRef("pk"), product_name__istartswith=text)
    yield from hits_of("deal", rows.filter(Exists(lines)).order_by("-pk"), "product", exact=False)


def _deals(lines: Q) -> list[object]:
    """The deals of lines; looked up first, so that the scope is asked of those alone."""
    return list(DealLine.objects.order_by().filter(lines).values_list("deal_id", flat=True)[: MOST * 10])
