"""Durable steps beside DBOS and Procrastinate."""
