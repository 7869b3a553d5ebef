"""People, teams and advertisers: written by administrators alone, through ordinary forms."""

from __future__ import annotations

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import Actor, Advertiser, Team, User
from tasks_app.people.scope import zones

admin.site.unregister(Group)


class _Kept(ModelAdmin):
    """Nothing here is deleted: the trail, deals and campaigns refer to it."""

    list_fullwidth = True
    compressed_fields = True
    warn_unsaved_form = True

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
