"""`make eval-assistant`: ask every question over both data sets, and print what is right.

The built-in planner answers, and then the model of FLIGHTDECK_ASSISTANT_URL, if it is set. A question is
right if it is right in both data sets. Ends with 1 if the planner answers fewer than 54 of 60 right.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.assistant.evaluation.running import Verdict

LEAST_RIGHT = 54
_ENVIRONMENT = {
    "DJANGO_SETTINGS_MODULE": "config.settings",
    "FLIGHTDECK_LOG_LEVEL": "CRITICAL",
}


def main() -> int:
    """Print the wrong answers, a summary, and as the last line JSON."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import django

    django.setup()
    from django.db.backends.signals import connection_created

    from tests.database import opened_server, point_django_at
    from tests.owning import owning_follow

    with opened_server() as (server, template):
        connection_created.connect(owning_follow)
        database = server.create(template=template)
        point_django_at(database.urls.app)
        return _evaluate()


def _evaluate() -> int:
    from django.conf import settings
    from django.db import connections

    from tasks_app.assistant.clients.builtin import NAME, BuiltInPlanner
    from tasks_app.assistant.runner import model_client
    from tests.assistant.evaluation.running import evaluate

    right = _report(NAME, evaluate(BuiltInPlanner()))
    if settings.ASSISTANT_URL:
        _report(settings.ASSISTANT_MODELS["answerer"], evaluate(model_client()))
    connections.close_all()
    return 0 if right >= LEAST_RIGHT else 1


def _report(client: str, verdicts: Mapping[str, Sequence[Verdict]]) -> int:
    """Print the verdicts on one client's answers; return how many questions it answered right."""
    for data_set, found in verdicts.items():
        for one in found:
            if not one.is_right:
                wrong = [*([f"wrong tool {one.tool!r}"] * (not one.tool_right)), *one.problems]
                wrong += ["wrong arguments"] * (one.tool_right and not one.arguments_right)
                print(f"{data_set}: {one.question}\n    {'; '.join(wrong)}")
    pairs = list(zip(*verdicts.values(), strict=True))
    durations = sorted(one.duration_ms for pair in pairs for one in pair)
    summary = {
        "total": len(pairs),
        "right": sum(all(one.is_right for one in pair) for pair in pairs),
        "tool_right": sum(all(one.tool_right for one in pair) for pair in pairs),
        "p95_ms": durations[int(len(durations) * 0.95)],
    }
    arguments = sum(all(one.arguments_right for one in pair) for pair in pairs)
    facts = sum(not any(one.problems for one in pair) for pair in pairs)
    print(
        f"{client}: of {summary['total']} questions: right tool {summary['tool_right']}, "
        f"right arguments {arguments}, right facts {facts}, all of it {summary['right']}; "
        f"p95 {summary['p95_ms']} ms"
    )
    print(json.dumps(summary))
    return summary["right"]


if __name__ == "__main__":
    sys.exit(main())
