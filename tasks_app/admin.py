"""Django looks here for the admin of one app; each room registers its own."""

from tasks_app.approvals import admin as approvals
from tasks_app.people import admin as people

__all__ = ["approvals", "people"]
