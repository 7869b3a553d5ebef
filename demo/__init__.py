"""The demonstration: three sellers' agents and the briefs that are booked with them."""
