"""How log lines look: one line an event, key=value, with the request or task it belongs to."""

import re
from typing import Any

import structlog

# The secret parts of addresses: a calendar's (campaigns/calendar), a link that sets a password.
_FEED = re.compile(r"(/calendar/)[^\s/'\"]+")
_PASSWORD_LINK = re.compile(r"(/set-password/)[^\s'\"]+")
# Plain tracebacks: where `rich` is installed the library's own would print the variables of every frame,
# secrets among them.
_lines = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)


def renderer(logger: Any, name: str, event: structlog.typing.EventDict) -> str:
    """One line, or with a traceback several, without secrets of addresses."""
    lines = _FEED.sub(r"\1(hidden).ics", str(_lines(logger, name, event)))
    return _PASSWORD_LINK.sub(r"\1(hidden)", lines)


def logging_config(level: str) -> dict[str, Any]:
    """Django's LOGGING: everything of `level` on to one stream; libraries only where something is wrong."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {"()": "structlog.stdlib.ProcessorFormatter", "processor": "ext://config.logs.renderer"},
        },
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            "httpx": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
            "mcp": {"level": "WARNING"},
            "a2a": {"level": "WARNING"},
            "django_structlog": {"level": "WARNING"},
            "axes": {"level": "WARNING"},
            "django-q": {"level": "WARNING"},
        },
    }


def configure() -> None:
    """Bind structlog to the standard library's logging; called when settings are loaded."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.filter_by_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
