"""Finds a handler that blocks the event loop, in a thread beside it."""

import asyncio
import sys
import threading
import time
from types import CodeType, FrameType

from . import lists
from .call import Call
from .logs import logger

# Seconds; GetStatus is to be answered within 100 ms.
BEAT = 0.1
MOST_BLOCKED = 0.5

# A handler is called from one of these.
CALLERS: set[CodeType] = {Call.invoke.__code__, lists._items.__code__}


class Watchdog:
    """Logs once for each time that the loop does nothing for half a second."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """To be made in the loop's own thread."""
        self.loop, self.thread_id = loop, threading.get_ident()
        self.last, self.ended = time.monotonic(), threading.Event()
        self._beat()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self.ended.set()

    def _beat(self) -> None:
        self.last = time.monotonic()
        if not self.ended.is_set():
            self.loop.call_later(BEAT, self._beat)

    def _watch(self) -> None:
        reported = 0.0
        while not self.ended.wait(BEAT):
            last = self.last
            if reported and last != reported:
                logger.warning("the event loop goes on", extra={"seconds": round(last - reported, 1)})
                reported = 0.0
            if not reported and time.monotonic() - last > MOST_BLOCKED:
                reported = last
                handler, line = blocked_in(sys._current_frames().get(self.thread_id))
                text = "a handler blocks the event loop, so that no call is answered meanwhile; await, or write def"
                logger.error(text, extra={"handler": handler, "at": line})


def blocked_in(frame: FrameType | None) -> tuple[str, str]:
    """The handler whose code runs in a stack, and the line; the outermost function that is not asyncio's, if no
    handler is in it."""
    if frame is None:
        return "", ""
    line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    outermost = frame.f_code.co_qualname
    while frame.f_back:
        if frame.f_back.f_code in CALLERS:
            return frame.f_code.co_qualname, line
        if "/asyncio/" not in frame.f_code.co_filename:
            outermost = frame.f_code.co_qualname
        frame = frame.f_back
    return outermost, line
