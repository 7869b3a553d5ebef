"""What the documents name exists, and what an operator needs is in them: commands, settings, files, tests."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from django.core.management import get_commands

ROOT = Path(__file__).resolve().parents[2]
OPERATING = ROOT / "docs" / "operating.md"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
OURS = ("campaigns", "orders", "tasks_app")
_QUOTED = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"(?:[\w.*{},-]+/)*[\w.*{},-]+\.(?:py|sql|json|js|css|html|md|txt|toml)(?::\d+)?")
# One whole name: FLIGHTDECK_WEBHOOK_… in a message stands for several.
_SETTING = re.compile(r"(?<![A-Z_])FLIGHTDECK_[A-Z0-9_]*[A-Z0-9](?![A-Z0-9_])|(?:MIGRATE_)?DATABASE_URL")
_PAGE = re.compile(r"(?<![\w*/.-])[\w/.-]*\w\.md\b")
_CITING = (".py", ".sql", ".json", ".js", ".css", ".html", ".toml", ".md", ".yaml", ".yml")
_EXAMPLES = frozenset({"recipes/stock_take.json"})  # what a reader is shown how to write
_TEST = re.compile(r"test_[a-z0-9_]+…?(?:[a-z0-9_]+)?")
# Read by the Makefile's programs or by tests alone: nobody who runs Flightdeck sets them.
_NOT_OPERATORS = frozenset({"FLIGHTDECK_PASSWORD", "FLIGHTDECK_TOTP_SECRET"})


@cache
def tracked() -> tuple[str, ...]:
    told = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(told.stdout.split())


@cache
def source() -> str:
    """All Python that runs in production, the demo and the supervisor."""
    named = [name for name in tracked() if name.endswith(".py") and not name.startswith(("tests/", "bench/"))]
    return "\n".join((ROOT / name).read_text() for name in named if (ROOT / name).exists())


@cache
def settings_read() -> frozenset[str]:
    return frozenset(_SETTING.findall(source()))


@cache
def names_of_tests() -> frozenset[str]:
    named = [name for name in tracked() if name.startswith("tests/") and name.endswith(".py")]
    code = "\n".join((ROOT / name).read_text() for name in named if (ROOT / name).exists())
    return frozenset(re.findall(r"def (test_\w+)", code))


def quoted(document: Path) -> Iterator[str]:
    yield from _QUOTED.findall(document.read_text())


def spelled(reference: str) -> list[str]:
    """`a/{b,c}.py` as a/b.py and a/c.py; a line's number is left out."""
    reference = re.sub(r":\d+$", "", reference)
    found = re.fullmatch(r"(.*)\{([^{}]+)\}(.*)", reference)
    return [found[1] + one.strip() + found[3] for one in found[2].split(",")] if found else [reference]


def exists(path: str) -> bool:
    """Whether a tracked file ends in that path; `*` stands for a part of a name."""
    ending = re.compile("(?:^|/)" + re.escape(path).replace(r"\*", "[^/]*") + "$")
    return any(ending.search(name) for name in tracked())


def commands() -> set[str]:
    return {name for name, app in get_commands().items() if app.split(".")[0] in OURS}


@pytest.mark.rule
def test_files_that_a_document_names_exist(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document.name):
            named = {one for text in quoted(document) for one in _FILE.findall(text) if " " not in text}
            missing = sorted(one for name in named for one in spelled(name) if not exists(one))
            assert set(missing) - _EXAMPLES == set()


@pytest.mark.rule
def test_every_page_that_is_cited_is_one_of_ours() -> None:
    """In code, data and documents: a design paper that nobody has proves nothing."""
    lost = [
        f"{name}:{number}: {page}"
        for name in tracked()
        if name.endswith(_CITING) or name == "Makefile"
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        for page in _PAGE.findall(line)
        if not exists(page.lstrip("./"))
    ]
    assert lost == []


@pytest.mark.rule
def test_places_that_a_document_links_to_exist(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document.name):
            links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text())
            here = [link for link in links if "://" not in link]
            assert [link for link in here if not (document.parent / link).exists()] == []


@pytest.mark.rule
def test_tests_that_a_document_names_exist(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document.name):
            named = {one for text in quoted(document) for one in [text.strip()] if _TEST.fullmatch(one)}
            patterns = {one: re.compile(re.escape(one).replace("…", r"\w*")) for one in named}
            missing = [
                one for one, pattern in patterns.items() if not any(map(pattern.fullmatch, names_of_tests()))
            ]
            assert missing == []


@pytest.mark.rule
def test_commands_that_a_document_names_exist(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document.name):
            named = set(re.findall(r"manage\.py ([a-z_]+)", document.read_text()))
            known = set(get_commands())
            assert sorted(named - known) == []


@pytest.mark.rule
def test_every_command_of_ours_is_in_the_operators_table_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z_]+)", OPERATING.read_text(), re.MULTILINE)
    listed = {name for name in rows if name in get_commands() or "_" in name}
    about_commands = listed - {"flightdeck_operations_open"} - _lanes_and_metrics()
    elsewhere = {"import_ad_buyer"}  # its own chapter
    assert about_commands | elsewhere >= commands()
    assert about_commands - commands() == set()


def _lanes_and_metrics() -> set[str]:
    rows = re.findall(r"^\| `([a-z_]+)", OPERATING.read_text(), re.MULTILINE)
    return {name for name in rows if name.startswith("flightdeck_") or name in _LANES}


_LANES = {"polling", "webhooks", "recipes", "main", "background"}


@pytest.mark.rule
def test_every_setting_that_is_read_is_documented_and_no_other() -> None:
    read = settings_read() - _NOT_OPERATORS
    documented = set(_SETTING.findall(OPERATING.read_text()))
    assert sorted(read - documented) == []
    assert sorted(documented - read) == []


@pytest.mark.rule
def test_settings_that_a_document_names_are_read(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document.name):
            named = set(_SETTING.findall(document.read_text())) - _NOT_OPERATORS
            assert sorted(named - settings_read()) == []


@pytest.mark.rule
def test_make_targets_that_a_document_names_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name
        for document in DOCUMENTS
        for text in quoted(document)
        for name in re.findall(r"^make ([a-z-]+)", text)
    }
    assert sorted(named - targets) == []


def test_every_table_is_whole() -> None:
    """A row that stands apart from its table is shown as text."""
    broken = []
    for document in DOCUMENTS:
        lines = document.read_text().splitlines()
        for before, line in zip(["", *lines], lines, strict=False):
            begins = line.startswith("|") and not before.startswith("|")
            after = lines[lines.index(line) + 1] if begins and lines.index(line) + 1 < len(lines) else ""
            if begins and not re.fullmatch(r"\|[\s:|-]+\|?", after):
                broken.append(f"{document.name}: {line[:60]}")
    assert broken == []


def test_nothing_stands_twice_in_a_document() -> None:
    """What was changed in one of two places would contradict the other."""
    for document in DOCUMENTS:
        lines = document.read_text().splitlines()
        heads = {head for head, rule in pairwise(lines) if rule.startswith("|--")}
        told = Counter(line for line in lines if len(line) > 60 and line not in heads)
        assert [line for line, times in told.items() if times > 1] == [], document.name
