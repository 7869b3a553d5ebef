"""What a seller may need besides: headers of its own, Basic credentials, the name of its status tool, reads with or
without the account."""

import django.core.validators
import encrypted_fields.fields
from django.db import migrations, models

import tasks_app.sellers.headers


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0033_changes_settled"),
    ]

    operations = [
        migrations.AddField(
            model_name="seller",
            name="account_in_reads",
            field=models.CharField(
                choices=[
                    ("auto", "as the seller takes it"),
                    ("always", "always named"),
                    ("never", "never named"),
                ],
                default="auto",
                help_text="Whether reads of media buys and tasks name the account",
                max_length=6,
            ),
        ),
        migrations.AddField(
            model_name="seller",
            name="auth_scheme",
            field=models.CharField(
                choices=[("bearer", "Bearer token"), ("basic", "Basic: name and password")],
                default="bearer",
                max_length=6,
            ),
        ),
        migrations.AddField(
            model_name="seller",
            name="headers",
            field=models.JSONField(
                blank=True, default=dict, validators=[tasks_app.sellers.headers.headers_valid]
            ),
        ),
        migrations.AddField(
            model_name="seller",
            name="secret_headers",
            field=encrypted_fields.fields.EncryptedTextField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="seller",
            name="status_tool",
            field=models.CharField(
                blank=True,
                help_text="Its own name for the tool that tells of a task",
                max_length=80,
                validators=[django.core.validators.RegexValidator("^[A-Za-z0-9_./-]+$", "A tool’s name.")],
            ),
        ),
    ]
