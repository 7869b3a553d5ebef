"""config.logs: what a log line may hold."""

from __future__ import annotations

import logging

from structlog.stdlib import ProcessorFormatter

from config.logs import renderer


def test_a_traceback_names_lines_and_never_what_variables_held() -> None:
    def call() -> None:
        credentials = "s3cret-" + "of-the-seller"
        raise ValueError(f"{len(credentials)} characters are too many")

    record = logging.LogRecord("flightdeck", logging.ERROR, __file__, 1, "call_failed", None, None)
    try:
        call()
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    told = ProcessorFormatter(processor=renderer).format(record)

    assert "20 characters are too many" in told
    assert "test_logs.py" in told
    assert "s3cret-of-the-seller" not in told
