"""Fri 20 Nov 2026, 16:41; the language of django.utils.dateformat. What is not named here is Django's."""

DATE_FORMAT = "D j M Y"
TIME_FORMAT = "H:i"
DATETIME_FORMAT = "D j M Y, H:i"
SHORT_DATE_FORMAT = "j M Y"
SHORT_DATETIME_FORMAT = "j M Y, H:i"
