"""django-unfold's settings."""

UNFOLD = {"SITE_TITLE": "Flightdeck", "SITE_HEADER": "Flightdeck"}
