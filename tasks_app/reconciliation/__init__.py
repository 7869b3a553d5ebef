"""Comparing ourselves with sellers: runs, what they found, and who has it."""
