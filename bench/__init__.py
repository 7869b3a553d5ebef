"""Measurements of Flightdeck beside its references: see `__main__`."""
