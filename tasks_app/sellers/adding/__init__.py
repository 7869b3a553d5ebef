"""Adding a seller in a page: its form, what it answers, and what is missing before the first order."""
