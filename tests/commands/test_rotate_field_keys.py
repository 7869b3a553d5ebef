"""The key ring of encrypted columns: what an older key encrypted moves to the first one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.test import override_settings

from tasks_app import field_keys
from tasks_app.field_keys import encrypted_columns, field_key_keep, field_key_missing
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.commands.running import call
from tests.database import Database, point_django_at
from tests.factories import make_seller
from tests.operations.making import fresh, stand

OLD, NEW = "an-old-field-key", "a-new-field-key"
SECRET, TOKEN = "a-webhook-secret-0123456789-0123456789", "a-token-of-the-seller"


@contextmanager
def ring(*keys: str, **more: Any) -> Iterator[None]:
    """The settings' ring is `keys`; each column reads it anew."""

    def forget() -> None:
        for _, column in encrypted_columns():
            for name in ("keys", "f"):
                column.__dict__.pop(name, None)

    with override_settings(SALT_KEY=list(keys), **more):
        forget()
        try:
            yield
        finally:
            forget()


def under(key: bytes, column: str, table: str) -> list[bool]:
    """Whether each stored value opens with that key alone."""

    def opens(text: str) -> bool:
        try:
            return bool(Fernet(key).decrypt(text.encode()))
        except Exception:
            return False

    with connection.cursor() as cursor:
        cursor.execute(f"select {column} from {table} where {column} is not null order by id")
        return [opens(row[0]) for row in cursor.fetchall()]


def first_key() -> bytes:
    key: bytes = Seller._meta.get_field("token").keys[0]
    return key


@pytest.fixture
def stored(committed_db: Database) -> Seller:
    """A seller and purchases, encrypted under the old key."""
    with ring(OLD):
        seller = make_seller("Keys", webhook_mode="hmac", webhook_secret=SECRET, token=TOKEN)
        for number in range(5):
            stand(S.SUBMITTED, seller=seller, task_id=f"task-{number}")
    point_django_at(committed_db.urls.owner)  # as `manage.py` runs it
    return seller


def test_everything_moves_to_the_first_key_and_the_old_one_can_go(stored: Seller) -> None:
    versions = {one.pk: one.version for one in Operation.objects.all()}
    with ring(NEW, OLD):
        ran = call("rotate_field_keys", "--json")
        assert ran.code == 0
        assert ran.json["rotated"]["tasks_app.Seller.token"] == 1
        assert ran.json["rotated"]["tasks_app.Operation.webhook_token"] == 5
        assert ran.json["rotated"]["tasks_app.Operation.request_text"] == 5
        assert not any(ran.json["unreadable"].values())
        again = call("rotate_field_keys", "--json").json
        assert not any(again["rotated"].values())
        assert again["current"]["tasks_app.Operation.request_text"] == 5

    with ring(NEW):
        kept = Seller.objects.get(pk=stored.pk)
        assert (kept.token, kept.webhook_secret) == (TOKEN, SECRET)
        for operation in Operation.objects.all():
            assert SECRET in operation.request_text
            assert operation.version == versions[operation.pk]
            assert verify_entity("operation", operation.pk).ok
        assert all(under(first_key(), "webhook_token", "tasks_app_operation"))


def test_a_changed_secret_key_moves_too(stored: Seller) -> None:
    from django.conf import settings

    before = settings.SECRET_KEY
    with ring(OLD, SECRET_KEY="another", SECRET_KEY_FALLBACKS=[before]):
        assert call("rotate_field_keys").code == 0
    with ring(OLD, SECRET_KEY="another", SECRET_KEY_FALLBACKS=[]):
        assert Seller.objects.get(pk=stored.pk).token == TOKEN


def test_stopped_in_the_midst_it_goes_on_where_it_was(
    stored: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_keys, "_BATCH", 2)
    batches = field_keys._rotate

    def stop_after_two(*arguments: Any) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        batches(*arguments)

    done: list[int] = []
    with ring(NEW, OLD):
        monkeypatch.setattr(field_keys, "_rotate", stop_after_two)
        with pytest.raises(KeyboardInterrupt):
            call("rotate_field_keys")
        monkeypatch.setattr(field_keys, "_rotate", batches)
        ran = call("rotate_field_keys", "--json").json

    moved, current = sum(ran["rotated"].values()), sum(ran["current"].values())
    assert moved > 0
    assert current > 0, "what was done before it stopped stays done"
    assert moved + current == 2 + 2 * 5
    with ring(NEW):
        assert [fresh(one).webhook_token is not None for one in Operation.objects.all()] == [True] * 5


def test_a_value_under_no_key_is_left_and_told(stored: Seller) -> None:
    with ring(NEW):
        ran = call("rotate_field_keys", "--json")
        assert ran.code == 1
        assert ran.json["unreadable"]["tasks_app.Seller.token"] == 1
        assert TOKEN not in ran.out + ran.err
    with ring(OLD):
        assert Seller.objects.get(pk=stored.pk).token == TOKEN


def test_a_value_changed_meanwhile_is_not_written_over(
    stored: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of a batch and its writing somebody saves a new token."""
    rotate = field_keys._rotate

    def rival(*arguments: Any) -> None:
        if arguments[0] is Seller and arguments[1].name == "token":
            Seller.objects.filter(pk=stored.pk).update(token="newer")
        rotate(*arguments)

    with ring(NEW, OLD):
        monkeypatch.setattr(field_keys, "_rotate", rival)
        assert call("rotate_field_keys").code == 0
        assert Seller.objects.get(pk=stored.pk).token == "newer"


def test_a_key_is_asked_for_until_nothing_needs_it(stored: Seller) -> None:
    with ring(OLD):
        assert not field_key_missing()
        field_key_keep()
    with ring(NEW):
        assert field_key_missing()
    with ring(NEW, OLD):
        assert not field_key_missing()
        field_key_keep()
    with ring(OLD):
        assert field_key_missing(), "another machine encrypts with the new one already"
    with ring(NEW, OLD):
        assert call("rotate_field_keys").code == 0
    with ring(NEW):
        assert not field_key_missing()
    with ring(OLD):
        assert field_key_missing()


def test_before_any_key_is_kept_what_is_stored_is_asked(stored: Seller) -> None:
    with ring(NEW):
        assert field_key_missing()
    with ring(OLD):
        assert not field_key_missing()


def test_a_lost_key_is_asked_for_until_it_is_given_up(stored: Seller) -> None:
    with ring(OLD):
        field_key_keep()
    with ring(NEW):
        assert call("rotate_field_keys").code == 1
        assert field_key_missing()
        assert call("rotate_field_keys", "--give-up-lost").code == 1
        assert not field_key_missing()
