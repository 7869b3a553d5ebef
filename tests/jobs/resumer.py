"""A process that resumes a job: writes how many steps it woke."""

from __future__ import annotations

import sys
import uuid


def main(job: str, token: str) -> None:
    import django

    django.setup()
    from tasks_app.jobs.resuming import job_resume

    sys.stdout.write(str(job_resume(job_id=uuid.UUID(job), token=token, actor="system")))


if __name__ == "__main__":
    main(*sys.argv[1:])
