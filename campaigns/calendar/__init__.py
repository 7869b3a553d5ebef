"""The commitment calendar: dates that cost money when nobody acts, as a page and as iCalendar."""
