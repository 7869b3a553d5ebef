"""The assistant: conversations in which a person asks, reads and proposes with their own rights."""
