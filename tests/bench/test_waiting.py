"""Jobs that wait, as `make bench-jobs` fills them in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.database import Database, TestServer

ROOT = Path(__file__).parents[2]


def test_each_waits_where_its_trail_leads(database_server: TestServer, template_database: Database) -> None:
    """Jobs are never imported: that broke the bench without anybody's notice."""
    database = database_server.create(template=template_database)
    try:
        settings = {"DJANGO_SETTINGS_MODULE": "bench.jobs.settings"}
        env = {**os.environ, **database.urls.environment(), **settings}
        subprocess.run([sys.executable, "-m", "bench.jobs.waiting", "20"], cwd=ROOT, env=env, check=True)
        with database_server.connect_admin(database.name) as admin:
            waiting = """
                select j.status, s.status, count(*)
                  from tasks_app_job j join tasks_app_step s on s.job_id = j.id
                 where s.waiting_for ->> 'type' = 'operation' group by 1, 2
            """
            assert admin.execute(waiting).fetchall() == [("PROCESSING", "awaiting_tool", 20)]
            entries = "select entity_type, count(*) from tasks_app_auditentry group by 1 order by 1"
            assert admin.execute(entries).fetchall() == [("job", 80), ("step", 80)]
    finally:
        database_server.drop(database.name)
