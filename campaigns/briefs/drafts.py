"""Drafts of briefs, private to their author."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from campaigns.models import BriefDraft, Campaign
from tasks_app import clock
from tasks_app.people.models import User

MOST_DRAFTS = 20


class DraftRefusedError(Exception):
    """The draft is not kept. The text is a sentence for the user."""


def drafts_of(user: User) -> QuerySet[BriefDraft]:
    """Return a person's drafts, the last saved first."""
    return BriefDraft.objects.filter(user=user)


@transaction.atomic
def save_draft(user: User, draft_id: uuid.UUID, content: Mapping[str, list[str]]) -> BriefDraft:
    """Keep what was typed so far. The oldest drafts above MOST_DRAFTS are discarded.

    Raises:
        DraftRefusedError: It is larger than a brief may be, was submitted, or is somebody else's.
    """
    if len(json.dumps(content)) > settings.MAX_BRIEF_BYTES:
        raise DraftRefusedError("This draft is too large to keep.")
    if Campaign.objects.filter(pk=draft_id).exists():
        raise DraftRefusedError("This brief was submitted already.")
    draft, _ = BriefDraft.objects.get_or_create(pk=draft_id, defaults={"user": user, "content": {}})
    if draft.user_id != user.pk:
        raise DraftRefusedError("Open a new page: this draft cannot be saved.")
    draft.content, draft.saved_at = dict(content), clock.now()
    draft.save(update_fields=["content", "saved_at"])
    surplus = list(drafts_of(user).values_list("pk", flat=True)[MOST_DRAFTS:])
    BriefDraft.objects.filter(pk__in=surplus).delete()
    return draft


def discard_draft(user: User, draft_id: uuid.UUID) -> None:
    """Discard a draft, if there is one."""
    BriefDraft.objects.filter(pk=draft_id, user=user).delete()
