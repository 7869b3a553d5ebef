"""Tools that the assistant may call, each with its arguments, the permission it needs and its effect."""
