"""The socket's file: mode 0660 before it can be found, a stale one replaced, a live one refused."""

import fcntl
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The system's limit is 107; the temporary name needs some.
MOST_BYTES = 100


class SocketError(Exception):
    """The provider cannot start; the operator reads why."""


def path_of(endpoint: str) -> Path:
    path = endpoint.removeprefix("unix:").removeprefix("//")
    if not endpoint.startswith("unix:") or not path.startswith("/") or path.endswith("/"):
        raise SocketError(f"endpoint {endpoint!r}: write unix:///absolute/path/of.sock")
    if len(os.fsencode(path)) > MOST_BYTES:
        raise SocketError(f"endpoint {endpoint!r}: a path may have {MOST_BYTES} bytes")
    return Path(path)


@contextmanager
def prepared(path: Path) -> Iterator[Path]:
    """A name to bind and listen at, which is moved to `path` when that is done."""
    path.parent.mkdir(mode=0o770, parents=True, exist_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        # If two providers start together, the second would move its socket over the first one's.
        fcntl.flock(directory, fcntl.LOCK_EX)
        refuse_live(path)
        # gRPC unlinks the name that it has bound when it ends: never the name that others use.
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(2)}")
        yield temporary
        # User and group: the controller has another user.
        temporary.chmod(0o660)
        temporary.rename(path)
    finally:
        os.close(directory)


def refuse_live(path: Path) -> None:
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise SocketError(f"{path} is no socket; remove it or choose another endpoint")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return
        except (TimeoutError, BlockingIOError):
            pass
    raise SocketError(f"another process serves {path}; stop it or choose another endpoint")


def identity(path: Path) -> tuple[int, int] | None:
    """The identity of the file: another process may put its own there."""
    return (path.stat().st_dev, path.stat().st_ino) if path.exists() else None
