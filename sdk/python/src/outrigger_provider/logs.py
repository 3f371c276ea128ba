"""The log of the process: on stderr, text on a terminal and otherwise one JSON object a line."""

import json
import logging
import os
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

LEVEL_VARIABLE = "LOG_LEVEL"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
NAMES = {logging.WARNING: "WARN", logging.CRITICAL: "ERROR"}

logger = logging.getLogger("outrigger_provider")

# Fields of each line that is logged during a call: rpc, request_id, and traceparent where the caller sent one.
call_fields: ContextVar[dict[str, str] | None] = ContextVar("call_fields", default=None)

_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return (call_fields.get() or {}) | extra


class JsonFormatter(logging.Formatter):
    """The keys timestamp, level and message as the controller has them, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": NAMES.get(record.levelno, record.levelname),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The message and its fields, then a traceback."""
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        level = NAMES.get(record.levelno, record.levelname)
        line = f"{self.formatTime(record)} {level} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def init_logging() -> None:
    """Sets logging up for the whole process; LOG_LEVEL is debug, info, warn or error. main calls it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if sys.stderr.isatty() else JsonFormatter())
    text = os.environ.get(LEVEL_VARIABLE, "info").strip().lower()
    logging.basicConfig(level=LEVELS.get(text, logging.INFO), handlers=[handler], force=True)
    if text not in LEVELS:
        fields = {"variable": LEVEL_VARIABLE, "value": text[:64]}
        logger.warning("the log level is none of debug, info, warn and error; info is used", extra=fields)
