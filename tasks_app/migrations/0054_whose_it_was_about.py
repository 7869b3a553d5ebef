"""What one person was told about something of a team's is theirs as long as they see that: its team is kept."""

from django.db import migrations

_TOLD = """
update public.tasks_app_notification n set team_id = about.team_id, advertiser_id = about.advertiser_id
  from public.tasks_app_{kind} about
 where n.person_id is not null and n.subject_type = '{kind}' and n.subject_id = about.id
"""


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0053_begun_in_and_nobodys_names")]
    operations = [
        migrations.RunSQL(_TOLD.format(kind=kind), migrations.RunSQL.noop)
        for kind in ("approval", "operation", "job")
    ]
