"""Admin pages of this room."""
