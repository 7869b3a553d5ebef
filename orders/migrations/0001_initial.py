import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import tasks_app.ids
import tasks_app.lifecycle.status_field
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('tasks_app', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Deal',
            fields=[
                ('id', models.UUIDField(default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('status_since', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('reference', models.CharField(editable=False, max_length=20, unique=True)),
                ('status', tasks_app.lifecycle.status_field.StatusField(choices=[('quoted', 'Quoted'), ('negotiating', 'Negotiating'), ('accepted', 'Accepted'), ('booking', 'Booking'), ('booked', 'Booked'), ('delivering', 'Delivering'), ('completed', 'Completed'), ('failed', 'Failed'), ('cancelled', 'Cancelled'), ('expired', 'Expired'), ('makegood_pending', 'Makegood Pending'), ('partially_canceled', 'Partially Canceled')], default='quoted', editable=False, max_length=50, protected=True)),
                ('campaign_id', models.UUIDField(db_index=True, null=True)),
                ('requested_by', models.CharField(max_length=80)),
                ('currency', models.CharField(max_length=3)),
                ('start_at', models.DateTimeField()),
                ('end_at', models.DateTimeField()),
                ('zone', models.CharField(max_length=64)),
                ('terms', models.JSONField(default=dict)),
                ('reasons', models.JSONField(default=dict)),
                ('media_buy_id', models.CharField(blank=True, max_length=255)),
                ('media_buy_status', models.CharField(blank=True, max_length=40)),
                ('revision', models.PositiveIntegerField(null=True)),
                ('valid_actions', models.JSONField(default=list)),
                ('confirmed_at', models.DateTimeField(null=True)),
                ('creative_deadline', models.DateTimeField(null=True)),
                ('confirmed_gross', models.DecimalField(decimal_places=4, max_digits=18, null=True)),
                ('as_of', models.DateTimeField(null=True)),
                ('differences', models.JSONField(default=list)),
                ('differs', models.BooleanField(default=False)),
                ('unapproved', models.BooleanField(default=False)),
                ('born_in', models.CharField(default='', editable=False, max_length=48)),
                ('account', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to='tasks_app.account')),
                ('advertiser', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='tasks_app.advertiser')),
                ('follows', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='followers', to='orders.deal')),
                ('seller', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='deals', to='tasks_app.seller')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='tasks_app.team')),
            ],
            options={
                'ordering': ['-id'],
                'permissions': [('cancel_deal', 'May cancel a deal')],
            },
        ),
        migrations.CreateModel(
            name='Change',
            fields=[
                ('id', models.UUIDField(default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('terms', 'Terms'), ('pause', 'Pause of the whole media buy'), ('cancellation', 'Cancellation of the whole media buy')], max_length=20)),
                ('reserved', models.DecimalField(decimal_places=4, default=0, max_digits=18)),
                ('opened_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('closed_at', models.DateTimeField(null=True)),
                ('outcome', models.CharField(blank=True, choices=[('made', 'Made'), ('not_shown', 'Not shown'), ('refused', 'Refused by the seller'), ('withdrawn', 'Withdrawn')], max_length=20)),
                ('operation', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='change', to='tasks_app.operation')),
                ('deal', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='changes', to='orders.deal')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='DealLine',
            fields=[
                ('id', models.UUIDField(default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('position', models.PositiveSmallIntegerField()),
                ('channel', models.CharField(max_length=40)),
                ('product_id', models.CharField(max_length=255)),
                ('product_name', models.CharField(max_length=255)),
                ('pricing_option_id', models.CharField(max_length=255)),
                ('pricing_model', models.CharField(max_length=20)),
                ('is_fixed', models.BooleanField(default=True)),
                ('guaranteed', models.BooleanField(default=False)),
                ('rate', models.DecimalField(decimal_places=6, max_digits=18, null=True)),
                ('ceiling', models.DecimalField(decimal_places=6, max_digits=18, null=True)),
                ('budget', models.DecimalField(decimal_places=4, max_digits=18)),
                ('minimum', models.DecimalField(decimal_places=4, max_digits=18, null=True)),
                ('units', models.DecimalField(decimal_places=1, max_digits=20, null=True)),
                ('start_at', models.DateTimeField()),
                ('end_at', models.DateTimeField()),
                ('targeting', models.JSONField(default=dict)),
                ('forecast', models.JSONField(default=dict)),
                ('terms', models.JSONField(default=dict)),
                ('paused', models.BooleanField(default=False)),
                ('canceled', models.BooleanField(default=False)),
                ('package_id', models.CharField(blank=True, max_length=255)),
                ('confirmed_product_id', models.CharField(max_length=255, null=True)),
                ('confirmed_pricing_option_id', models.CharField(max_length=255, null=True)),
                ('confirmed_budget', models.DecimalField(decimal_places=4, max_digits=18, null=True)),
                ('confirmed_rate', models.DecimalField(decimal_places=6, max_digits=18, null=True)),
                ('confirmed_start_at', models.DateTimeField(null=True)),
                ('confirmed_end_at', models.DateTimeField(null=True)),
                ('confirmed_targeting', models.JSONField(null=True)),
                ('confirmed_paused', models.BooleanField(null=True)),
                ('confirmed_canceled', models.BooleanField(null=True)),
                ('deal', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='lines', to='orders.deal')),
            ],
            options={
                'ordering': ['deal', 'position'],
            },
        ),
        migrations.CreateModel(
            name='RequestKey',
            fields=[
                ('id', models.UUIDField(default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('actor', models.CharField(max_length=80)),
                ('key', models.CharField(max_length=255)),
                ('digest', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('operation', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='request_keys', to='tasks_app.operation')),
            ],
        ),
        migrations.CreateModel(
            name='UnclaimedBuy',
            fields=[
                ('id', models.UUIDField(default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('media_buy_id', models.CharField(blank=True, max_length=255)),
                ('source', models.CharField(choices=[('late', 'The purchase was completed late'), ('second', 'The seller named a second media buy for the purchase'), ('listed', 'The seller lists it')], max_length=20)),
                ('record', models.JSONField()),
                ('amount', models.DecimalField(decimal_places=4, max_digits=18)),
                ('not_cancelled', models.TextField(blank=True)),
                ('opened_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('closed_at', models.DateTimeField(null=True)),
                ('outcome', models.CharField(blank=True, choices=[('kept', 'Kept as a deal'), ('cancelled', 'Cancelled at the seller'), ('held', 'Held by another deal'), ('dropped', 'Not kept, and nothing could be cancelled')], max_length=20)),
                ('cancellation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tasks_app.operation')),
                ('deal', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='unclaimed_buys', to='orders.deal')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='DealMirror',
            fields=[
                ('deal', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='mirror', serialize=False, to='orders.deal')),
                ('due_at', models.DateTimeField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('unread', models.TextField(blank=True)),
                ('as_stated', models.JSONField(default=dict)),
                ('asked_at', models.DateTimeField(null=True)),
                ('stated_at', models.DateTimeField(null=True)),
                ('read_at', models.DateTimeField(null=True)),
                ('older_reads', models.PositiveSmallIntegerField(default=0)),
                ('older_asked_at', models.DateTimeField(null=True)),
                ('older_revision', models.PositiveIntegerField(null=True)),
                ('restarted', models.TextField(blank=True)),
                ('final', models.BooleanField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='mirror_due')],
            },
        ),
        migrations.AddIndex(
            model_name='deal',
            index=models.Index(condition=models.Q(('status__in', ('quoted', 'negotiating', 'accepted', 'booking'))), fields=['start_at', 'id'], name='deal_unsettled'),
        ),
        migrations.AddIndex(
            model_name='deal',
            index=models.Index(condition=models.Q(('status__in', ('booked', 'delivering', 'completed', 'makegood_pending', 'partially_canceled'))), fields=['end_at', 'id'], name='deal_booked'),
        ),
        migrations.AddIndex(
            model_name='deal',
            index=models.Index(condition=models.Q(('differs', True)), fields=['-id'], name='deal_differs'),
        ),
        migrations.AddConstraint(
            model_name='deal',
            constraint=models.UniqueConstraint(condition=models.Q(('media_buy_id', ''), _negated=True), fields=('seller', 'media_buy_id'), name='media_buy_once_per_seller'),
        ),
        migrations.AddConstraint(
            model_name='deal',
            constraint=models.CheckConstraint(condition=models.Q(('end_at__gt', models.F('start_at'))), name='deal_flight'),
        ),
        migrations.AddConstraint(
            model_name='change',
            constraint=models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('deal', 'kind'), name='one_open_change_per_deal'),
        ),
        migrations.AddConstraint(
            model_name='change',
            constraint=models.CheckConstraint(condition=models.Q(('reserved__gte', 0)), name='reserved_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='change',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('closed_at__isnull', True), ('outcome', '')), models.Q(('closed_at__isnull', False), models.Q(('outcome', ''), _negated=True)), _connector='OR'), name='closed_change_has_outcome'),
        ),
        migrations.AddIndex(
            model_name='dealline',
            index=models.Index(condition=models.Q(('package_id', ''), _negated=True), fields=['package_id'], name='line_package'),
        ),
        migrations.AddIndex(
            model_name='dealline',
            index=models.Index(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Upper('product_name'), name='text_pattern_ops'), name='line_by_product'),
        ),
        migrations.AddConstraint(
            model_name='dealline',
            constraint=models.UniqueConstraint(fields=('deal', 'position'), name='line_position_once'),
        ),
        migrations.AddConstraint(
            model_name='dealline',
            constraint=models.CheckConstraint(condition=models.Q(('budget__gte', 0)), name='line_budget_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='requestkey',
            constraint=models.UniqueConstraint(fields=('actor', 'key'), name='request_key_once_per_caller'),
        ),
        migrations.AddConstraint(
            model_name='unclaimedbuy',
            constraint=models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('deal', 'media_buy_id'), name='one_open_unclaimed_buy'),
        ),
        migrations.AddConstraint(
            model_name='unclaimedbuy',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 0)), name='unclaimed_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='unclaimedbuy',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('closed_at__isnull', True), ('outcome', '')), models.Q(('closed_at__isnull', False), models.Q(('outcome', ''), _negated=True)), _connector='OR'), name='closed_unclaimed_has_outcome'),
        ),
    ]
