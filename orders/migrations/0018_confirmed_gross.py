"""What a seller confirms of a deal in all, kept beside what was approved."""

from django.db import migrations, models

# As it was counted until now: each line as confirmed, else as ordered; a total that differed had no place.
_FILL = """
update public.orders_deal d set confirmed_gross = l.gross
  from (select deal_id, sum(coalesce(confirmed_budget, budget)) gross, bool_or(confirmed_budget is not null) said
          from public.orders_dealline group by deal_id) l
 where l.deal_id = d.id and l.said
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0017_named_changes")]
    operations = [
        migrations.AddField(
            model_name="deal",
            name="confirmed_gross",
            field=models.DecimalField(decimal_places=4, max_digits=18, null=True),
        ),
        migrations.RunSQL(_FILL, migrations.RunSQL.noop),
    ]
