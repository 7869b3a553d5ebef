"""`manage.py import_ad_buyer`: the reference buyer's database, brought in once, with its history."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from django.core.management.base import CommandParser

from campaigns.legacy.history import STATUSES
from campaigns.legacy.owners import Owner, UnknownAdvertiserError, advertisers_named
from campaigns.legacy.plans import Refused
from campaigns.legacy.service import Report, legacy_import
from campaigns.legacy.source import UnreadableSourceError
from tasks_app.management.base import DeskCommand, refuse, table, user_named
from tasks_app.people.house import NO_HOUSE, is_house_named
from tasks_app.people.models import Team, User

_RIGHT = "tasks_app.add_advertiser"


class Command(DeskCommand):
    help = (
        "Reads the SQLite database of IABTechLab's buyer-agent and keeps its deals, campaigns and booking "
        "jobs with their history, marked as imported. The file is only read; what is here already stays so."
    )
    exit_codes = (
        "Exit code 0: every deal, campaign and job is here now; 1: some are not, each is told with the "
        "reason; 2: refused, or the database cannot be read, and nothing was done."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", help="the SQLite file, usually ad_buyer.db")
        parser.add_argument(
            "--as", dest="username", metavar="USER", required=True, help="who answers for the import"
        )
        parser.add_argument("--team", metavar="NAME", help="whose the rows are; else USER's only team")
        parser.add_argument(
            "--advertiser",
            action="append",
            default=[],
            metavar="[ID=]NAME",
            help="which of the team's advertisers an advertiser id is; without ID: of rows that name none",
        )
        parser.add_argument("--zone", default="UTC", help="the time zone of flights (the source names none)")
        parser.add_argument(
            "--source",
            default="ad_buyer",
            metavar="NAME",
            help="what to call the source, if there are several",
        )
        parser.add_argument("--dry-run", action="store_true", help="tell what would be done, and do nothing")

    def run(self, **options: Any) -> None:
        if not is_house_named():
            refuse(NO_HOUSE)
        owner, dry_run = _owner(options), options["dry_run"]
        try:
            report = legacy_import(path=Path(options["path"]), owner=owner, dry_run=dry_run)
        except UnreadableSourceError as error:
            refuse(f"Nothing was imported: {error}.")
        self.answer(_data(report, owner, dry_run), _lines(report, dry_run))
        if report.refused:
            self.found(f"{len(report.refused)} rows were not imported.")


def _owner(options: dict[str, Any]) -> Owner:
    user = user_named(options["username"])
    if not user.has_perm(_RIGHT):
        refuse(f"{user.username} may not import: name an administrator.")
    if options["zone"] not in available_timezones():
        refuse(f"{options['zone']!r} is no time zone of the IANA database, such as America/New_York.")
    source = options["source"].strip()
    if not source or len(source) > 60 or not source.isprintable():
        refuse("--source takes a name of 1 to 60 characters.")
    team = _team(user, options["team"])
    try:
        advertisers = advertisers_named(team, options["advertiser"])
    except UnknownAdvertiserError as error:
        refuse(f"{error}.")
    return Owner(team=team, user=user, source=source, zone=options["zone"], advertisers=advertisers)


def _team(user: User, name: str | None) -> Team:
    own = Team.objects.all() if user.is_superuser else user.teams.all()
    if name is not None:
        found = own.filter(name=name).first()
        return found or refuse(f"{user.username} has no team {name!r}.")
    teams = list(user.teams.all())
    if len(teams) != 1:
        refuse(f"Say whose the rows are, with --team: {user.username} belongs to {len(teams)} teams.")
    return teams[0]


def _data(report: Report, owner: Owner, dry_run: bool) -> dict[str, Any]:
    return {
        "source": owner.source,
        "digest": report.digest,
        "dry_run": dry_run,
        "import": report.import_id,
        "imported": [
            {
                "table": one.table,
                "id": one.legacy_id,
                "reference": one.reference or None,
                "status": one.status,
                "history": "replayed" if one.replayed else "kept as told",
                "notes": list(one.notes),
            }
            for one in report.imported
        ],
        "already_here": report.already,
        "not_imported": [
            {"table": one.table, "row": one.rowid, "id": one.legacy_id, "problems": list(one.problems)}
            for one in report.refused
        ],
        "unknown_statuses": {
            name: {"found": dict(found), "known": list(STATUSES[name])}
            for name, found in report.unknown.items()
        },
        "new_sellers": report.sellers,
        "missing_tables": report.missing,
        "other_tables": [
            {"table": name, "rows": rows, "what": what} for name, rows, what in report.elsewhere
        ],
    }


def _lines(report: Report, dry_run: bool) -> list[str]:
    verb = "would be imported" if dry_run else "imported"
    lines = [
        f"{len(report.imported)} {verb}, {report.already} here already, {len(report.refused)} not imported."
    ]
    if report.imported:
        rows = [
            (one.reference or "—", one.table, one.legacy_id, one.status,
             "replayed" if one.replayed else "kept as told", "; ".join(one.notes))
            for one in report.imported
        ]  # fmt: skip
        lines += table(("here", "table", "id", "state", "history", "notes"), rows)
    lines += [f"Not imported: {_row(one)}" for one in report.refused]
    for name, found in report.unknown.items():
        told = ", ".join(f"{status!r} ({count})" for status, count in sorted(found.items()))
        lines.append(f"Unknown statuses in {name}: {told}; known: {', '.join(STATUSES[name])}")
    if report.sellers:
        lines.append(f"New sellers, to be added (add_seller) and switched on: {', '.join(report.sellers)}")
    lines += [f"There is no table {name}." for name in report.missing]
    lines += [f"{name}, {rows} rows: {what}" for name, rows, what in report.elsewhere]
    if dry_run:
        lines.append("A dry run: nothing was changed.")
    return lines


def _row(one: Refused) -> str:
    named = "; ".join(f"{p['field']} {p['problem']}".strip() for p in one.problems)
    return f"{one.table} {one.legacy_id or f'row {one.rowid}'}: {named}"
