"""Options of commands that mean less, or more, than they say are refused; what is refused writes nothing."""

from __future__ import annotations

import uuid
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from tasks_app.commands.kill_switch import stops
from tasks_app.lifecycle.anchor_keys import private_key, public_key, public_path
from tasks_app.people.security_models import ApiToken
from tests.factories import make_deal, make_seller, make_team, make_user

pytestmark = pytest.mark.django_db


def test_an_empty_team_stops_nobody() -> None:
    make_team()
    with pytest.raises(CommandError, match="There is no team ''"):
        call_command("kill_switch", "on", "--team", "", "--reason", "x", stdout=StringIO())
    assert stops().everywhere is None
    assert not stops().teams


def test_a_switched_off_persons_tokens_can_be_revoked_and_none_is_made() -> None:
    user = make_user("Buyer")
    call_command("api_token", user.username, stdout=StringIO())
    user.is_active = False
    user.save()
    with pytest.raises(CommandError, match="switched off"):
        call_command("api_token", user.username, stdout=StringIO())
    call_command("api_token", user.username, "--revoke", stdout=StringIO())
    assert not ApiToken.objects.exists()


@pytest.mark.rule
def test_a_refused_proof_writes_no_anchor(tmp_path: Path) -> None:
    make_seller()
    kept = override_settings(VAR_DIR=tmp_path, ANCHOR_KEY=tmp_path / "key.pem")
    with kept, pytest.raises(CommandError, match="nothing was signed") as error:
        call_command("audit_anchor", "--proof", f"deal:{uuid.uuid4()}", stdout=StringIO())
    assert error.value.returncode == 2
    assert not list(tmp_path.rglob("*"))


@pytest.mark.rule
@pytest.mark.parametrize("public", ["another's", "nonsense"])
def test_a_proof_that_the_public_key_does_not_bear_out_writes_no_anchor(tmp_path: Path, public: str) -> None:
    deal, path = make_deal(), tmp_path / "key.pem"
    private_key(path)
    wrong = public_path(path)
    if public == "nonsense":
        wrong.write_text("nonsense")
    else:
        private_key(tmp_path / "another")
        public_path(tmp_path / "another").replace(wrong)
    kept = override_settings(VAR_DIR=tmp_path / "var", ANCHOR_KEY=path)
    with kept, pytest.raises(CommandError, match="public") as error:
        call_command("audit_anchor", "--proof", f"deal:{deal.pk}", stdout=StringIO())
    assert error.value.returncode == 2
    assert not list((tmp_path / "var").rglob("*"))


def test_a_lost_public_half_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    key = private_key(path)
    public_path(path).unlink()
    private_key(path)
    assert public_key(public_path(path)) == key.public_key()
