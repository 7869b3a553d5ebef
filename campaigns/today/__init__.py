"""Today: the dashboard, a card a module; who sees which first is in `layouts`."""
