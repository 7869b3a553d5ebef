import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import tasks_app.ids
import tasks_app.lifecycle.status_field
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('tasks_app', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Campaign',
            fields=[
                ('id', models.UUIDField(default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('status_since', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('reference', models.CharField(editable=False, max_length=20, unique=True)),
                ('status', tasks_app.lifecycle.status_field.StatusField(choices=[('initialized', 'Initialized'), ('brief_received', 'Brief Received'), ('validation_failed', 'Validation Failed'), ('budget_allocated', 'Budget Allocated'), ('researching', 'Researching'), ('awaiting_approval', 'Awaiting Approval'), ('executing_bookings', 'Executing Bookings'), ('completed', 'Completed'), ('failed', 'Failed')], default='initialized', editable=False, max_length=50, protected=True)),
                ('name', models.CharField(max_length=200)),
                ('requested_by', models.CharField(max_length=80)),
                ('brief', models.JSONField()),
                ('problems', models.JSONField(default=list)),
                ('budget', models.DecimalField(decimal_places=4, max_digits=18, null=True)),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('start_at', models.DateTimeField(null=True)),
                ('end_at', models.DateTimeField(null=True)),
                ('zone', models.CharField(blank=True, max_length=64)),
                ('outcome', models.JSONField(default=dict)),
                ('request_key', models.CharField(blank=True, db_default='', default='', editable=False, max_length=64)),
                ('request_digest', models.CharField(blank=True, db_default='', default='', editable=False, max_length=64)),
                ('advertiser', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to='tasks_app.advertiser')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='tasks_app.team')),
            ],
            options={
                'ordering': ['-id'],
                'permissions': [('submit_campaign', 'May submit a brief')],
            },
        ),
        migrations.CreateModel(
            name='Allocation',
            fields=[
                ('id', models.UUIDField(default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('channel', models.CharField(max_length=40)),
                ('amount', models.DecimalField(decimal_places=4, max_digits=18)),
                ('campaign', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='campaigns.campaign')),
            ],
            options={
                'ordering': ['-amount', 'channel'],
            },
        ),
        migrations.CreateModel(
            name='BriefDraft',
            fields=[
                ('id', models.UUIDField(default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('content', models.JSONField()),
                ('saved_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-saved_at'],
                'default_permissions': (),
                'indexes': [models.Index(fields=['user', '-saved_at'], name='brief_draft_by_user')],
            },
        ),
        migrations.CreateModel(
            name='CalendarFeed',
            fields=[
                ('id', models.UUIDField(default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('made_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('read_at', models.DateTimeField(null=True)),
                ('revoked_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(condition=models.Q(('revoked_at__isnull', True)), fields=('user',), name='one_calendar_feed_each')],
            },
        ),
        migrations.AddIndex(
            model_name='campaign',
            index=models.Index(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Upper('name'), name='text_pattern_ops'), name='campaign_by_name'),
        ),
        migrations.AddIndex(
            model_name='campaign',
            index=models.Index(condition=models.Q(('budget__gt', 0)), fields=['end_at'], name='campaign_flight'),
        ),
        migrations.AddIndex(
            model_name='campaign',
            index=models.Index(condition=models.Q(('status__in', ('completed', 'failed', 'validation_failed')), _negated=True), fields=['requested_by', '-id'], name='campaign_under_way'),
        ),
        migrations.AddConstraint(
            model_name='campaign',
            constraint=models.UniqueConstraint(condition=models.Q(('request_key', ''), _negated=True), fields=('request_key',), name='campaign_once_per_request'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.UniqueConstraint(fields=('campaign', 'channel'), name='channel_once_per_campaign'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='allocation_positive'),
        ),
    ]
