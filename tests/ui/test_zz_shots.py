from pathlib import Path
import os
import pytest
from tasks_app.jobs.models import Job
from tests.ui.pages import list_of, page_of
pytestmark = pytest.mark.browser
OUT = Path("/tmp/shots")

def test_shots(desk):
    OUT.mkdir(exist_ok=True)
    job = Job.objects.filter(recipe="campaign").order_by("id")[1]
    jobs = {"list": list_of(Job) , "list_f": list_of(Job) + "?view=open&waits=operation"}
    jobs["bulk"] = "/admin/tasks_app/job/bulk/?act=cancel&view=open"
    for i, one in enumerate(Job.objects.filter(recipe="campaign")[:2]):
        jobs[f"job{i}"] = page_of(one)
    only = os.environ.get("ONLY", "")
    for name, address in jobs.items():
        if only and only not in name: continue
        for suffix, size, dark in (("", (1280, 900), False), ("_dark", (1280, 900), True), ("_phone", (390, 844), False)):
            with desk.looking("Ad Ops", size=size, dark=dark) as page:
                page.goto(address)
                page.wait_for_timeout(600)
                page.screenshot(path=OUT / f"{name}{suffix}.png", full_page=True)
