"""The peer's application: one model with django-fsm-2, logged by django-fsm-log."""
