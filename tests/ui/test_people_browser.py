"""A person is invited and approves something; a token is made and used by curl: in a real browser."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from tasks_app.approvals.models import Decision
from tasks_app.people.models import User
from tests.support import PATIENCE_S
from tests.ui.browser import Desk

pytestmark = pytest.mark.browser
PASSWORD = "an entirely different staple of words"


def test_an_invited_person_logs_in_and_approves(desk: Desk) -> None:
    with desk.looking("Administrator") as page:
        page.goto(reverse("admin:tasks_app_user_changelist"))
        page.locator("a[href*='/user/add/']").first.click()
        page.fill("[name=first_name]", "Noor")
        page.fill("[name=last_name]", "Haddad")
        page.fill("[name=email]", "noor@example.com")
        page.select_option("[name=groups]", label="Approver")
        page.select_option("[name=memberships-0-team]", label="Halden & Marsh")
        page.get_by_role("button", name="Save", exact=True).click()
        told = page.locator("ul.fd-messages")
        expect(told).to_contain_text("set-password")
        link = re.search(r"(/admin/set-password/\S+)", told.inner_text())
        assert link is not None
    with desk.looking(None) as page:
        page.goto(link[1])
        page.fill("[name=new_password1]", PASSWORD)
        page.fill("[name=new_password2]", PASSWORD)
        page.get_by_role("button", name="Set the password").click()
        page.wait_for_url(re.compile(r"/admin/$"))
        page.goto(reverse("admin:tasks_app_approval_changelist"))
        page.keyboard.press("Enter")
        expect(page.locator("#decision")).to_be_visible()
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_contain_text("your approval is recorded")
    noor = User.objects.get(email="noor@example.com")
    assert Decision.objects.get(actor=f"human:{noor.pk}").verdict == "approve"


def test_a_token_is_made_and_used_by_curl(desk: Desk) -> None:
    with desk.looking("Approver") as page:
        page.goto(reverse("account"))
        page.fill("#token-name", "Reporting")
        page.get_by_role("button", name="Make a token").click()
        command = shlex.split(page.locator("#token-curl").inner_text())
        assert command[0] == "curl"
        answered = subprocess.run(
            [*command, "--silent", "--fail"], capture_output=True, check=True, timeout=PATIENCE_S
        )
        assert json.loads(answered.stdout)["results"]
        page.goto(reverse("account"))
        expect(page.locator("#new-token")).to_have_count(0)
        page.get_by_role("row", name="Reporting").get_by_role("button", name="Revoke").click()
        expect(page.locator("ul.fd-messages")).to_contain_text("The token is revoked.")
    assert subprocess.run([*command, "--silent", "--fail"], timeout=PATIENCE_S, check=False).returncode == 22
