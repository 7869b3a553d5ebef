"""What came before Flightdeck, brought in once: the reference buyer's database."""
