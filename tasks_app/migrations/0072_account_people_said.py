"""When people last said something of an account, and when its seller was asked for what it answered last: what
it was asked before does not write over either. What people said before is read from the security log; an entry
names the advertiser and the seller as they were called then."""

from django.db import migrations, models

from tasks_app.lifecycle.install import install_kept

SAID = """
update public.tasks_app_account a set people_said_at = said.at
  from public.tasks_app_advertiser v, public.tasks_app_seller s, lateral (
    select max(e.at) as at from public.tasks_app_securityevent e
     where e.event = 'seller_changed' and e.about = left(v.name || ' with ' || s.name, 200)) said
 where v.id = a.advertiser_id and s.id = a.seller_id and said.at is not null and a.people_said_at is null
"""


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0071_sellers_never_asked")]
    operations = [
        migrations.AddField(
            model_name="account",
            name="people_said_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="account",
            name="asked_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        install_kept(),
        # Last: what it changes is checked at commit, and a table with such a check to come is not altered.
        migrations.RunSQL(SAID, migrations.RunSQL.noop, elidable=True),
    ]
