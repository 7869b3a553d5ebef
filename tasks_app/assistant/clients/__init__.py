"""Model clients: an OpenAI-compatible endpoint, and the built-in planner."""
