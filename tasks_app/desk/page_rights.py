"""Pages of the admin that a person may open, asked without a request: for what links there from outside."""

from __future__ import annotations

from typing import cast

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import Resolver404, resolve

from tasks_app.people.models import User


def page_opens(person: User, path: str) -> bool:
    """Whether `path` is a page of one of the admin's models and `person` has the right to read those. Which
    rows they see is not asked."""
    if not person.is_active or not person.is_staff:
        return False
    found = _admin_of(path)
    request = HttpRequest()
    request.user = person
    return found is not None and bool(found.has_view_permission(request))


def _admin_of(path: str) -> ModelAdmin[Model] | None:
    try:
        name = resolve(path).url_name or ""
    except Resolver404:
        return None
    for model, found in admin.site._registry.items():
        if name.startswith(f"{model._meta.app_label}_{model._meta.model_name}_"):
            return cast("ModelAdmin[Model]", found)
    return None
