"""POST /api/v1/operations/<id>/correct/"""

from __future__ import annotations

import pytest

from tasks_app.approvals.models import Approval
from tests.api.conftest import Open
from tests.orders.refusing import corrected, refused

pytestmark = pytest.mark.django_db


def test_the_api_answers_the_new_operation_and_its_approval(opened: Open) -> None:
    _, operation = refused()
    api = opened("Ad Ops")
    address = f"/api/v1/operations/{operation.reference}/correct/"
    wrong = api.post(address, {"arguments": {"packages": []}, "reason": "So."}, format="json")
    assert wrong.status_code == 400
    assert "packages" in str(wrong.json())
    done = api.post(address, {"arguments": corrected(operation), "reason": "So."}, format="json")
    assert done.status_code == 202, done.json()
    said = done.json()
    assert said["reference"] != operation.reference
    assert said["approval_id"] == str(Approval.objects.get(kind="deal", status="open").pk)
    assert (
        api.post(address, {"arguments": corrected(operation), "reason": "So."}, format="json").status_code
        == 409
    )
