"""What people accepted otherwise than it was ordered counts as approved, and stands in columns of its own."""

from django.db import migrations, models

from tasks_app.lifecycle.install import install_changes

# Until now what was accepted was what differed and was not flagged any more.
_FILL = """
update public.orders_deal
   set accepted = differences, accepted_gross = confirmed_gross, differences = '[]'
 where not differs and differences <> '[]'
   and status in ('booked', 'delivering', 'completed', 'makegood_pending', 'partially_canceled');
update public.orders_deal
   set accepted = (select coalesce(jsonb_agg(one), '[]') from jsonb_array_elements(accepted) one
                    where one ->> 'field' <> 'approval')
 where accepted @> '[{"field": "approval"}]';
update public.orders_deal set accepted_gross = null where accepted = '[]' and accepted_gross is not null;
update public.orders_deal set accepted_gross = 0 where differs and differences @> '[{"field": "approval"}]';
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0019_moments_as_stated")]
    operations = [
        migrations.AddField(
            model_name="deal",
            name="accepted",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="deal",
            name="accepted_gross",
            field=models.DecimalField(decimal_places=4, max_digits=18, null=True),
        ),
        install_changes(
            "deal",
            moved=[
                "media_buy_id",
                "media_buy_status",
                "revision",
                "valid_actions",
                "confirmed_at",
                "creative_deadline",
                "as_of",
                "differs",
            ],
            noted=["start_at", "end_at", "differences", "differs", "accepted", "accepted_gross"],
        ),
        migrations.RunSQL(_FILL, migrations.RunSQL.noop),
        migrations.RemoveConstraint(model_name="dealline", name="line_budget_positive"),
        migrations.AddConstraint(
            model_name="dealline",
            constraint=models.CheckConstraint(
                condition=models.Q(("budget__gte", 0)), name="line_budget_not_negative"
            ),
        ),
    ]
