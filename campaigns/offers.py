"""Products as sellers offered them: read by the storey below, which puts them into deals."""

from orders.offers import Offer, forecast_of, offers, terms_of

__all__ = ["Offer", "forecast_of", "offers", "terms_of"]
