"""The socket's file: mode 0660 from the moment that it can be found, a stale one replaced, a live one refused."""

import asyncio
import fcntl
import os
import secrets
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .logs import logger

ENDPOINT_VARIABLE = "CLOUDPROVIDER_ENDPOINT"
DEFAULT_ENDPOINT = "unix:///run/outrigger/provider.sock"

# The system's limit is 107; the temporary name needs some.
MOST_BYTES = 100
# Controller and provider share the group (fsGroup), not the user.
SOCKET_MODE, DIRECTORY_MODE = 0o660, 0o770
CONNECT_SECONDS = 2.0
# Another start in the same directory lasts milliseconds.
LOCK_SECONDS = 5.0


class SocketError(Exception):
    """The provider cannot serve at its endpoint; an operator reads why."""


def path_of(endpoint: str) -> Path:
    """The path of unix:///absolute/path or unix:/absolute/path."""
    path = endpoint.removeprefix("unix:").removeprefix("//")
    if not endpoint.startswith("unix:") or not path.startswith("/") or path.endswith("/"):
        raise SocketError(f"endpoint {endpoint!r} is no Unix socket; write unix:///absolute/path/of.sock")
    if (size := len(os.fsencode(path))) > MOST_BYTES:
        raise SocketError(f"endpoint {endpoint!r} has a path of {size} bytes; a Unix socket's may have {MOST_BYTES}")
    return Path(path)


@asynccontextmanager
async def prepared(path: Path) -> AsyncIterator[Path]:
    """A name to bind and listen at, which is moved to `path` when that is done."""
    try:
        # A directory that exists keeps its mode: an emptyDir belongs to root.
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            # The umask has removed bits.
            path.parent.chmod(DIRECTORY_MODE)
        directory = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise SocketError(f"cannot use the directory of the socket: {error}") from error
    # gRPC unlinks the name that it has bound when it ends: never the name that others use.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(2)}")
    try:
        # If two providers start together, the second would move its socket over the first one's.
        async with asyncio.timeout(LOCK_SECONDS):
            await asyncio.to_thread(fcntl.flock, directory, fcntl.LOCK_EX)
        refuse_live(path)
        # gRPC's error does not say why.
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(f"Permission denied: user {os.geteuid()} may not write in {path.parent}")
        yield temporary
        temporary.chmod(SOCKET_MODE)
        temporary.rename(path)
    except TimeoutError:
        raise SocketError(f"{path.parent} is locked by another process that makes a socket in it") from None
    except (OSError, RuntimeError) as error:
        temporary.unlink(missing_ok=True)
        raise SocketError(f"cannot make the socket {path}: {error}") from error
    finally:
        os.close(directory)


def refuse_live(path: Path) -> None:
    """Renaming over a live socket would succeed, and cut its owner off."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketError(f"{path} exists and is not a socket; remove it or choose another endpoint")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(CONNECT_SECONDS)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            logger.info("taking over a stale socket", extra={"path": str(path)})
            return
        except (TimeoutError, BlockingIOError):
            # Its queue is full.
            pass
        except OSError as error:
            raise SocketError(f"cannot find out whether a provider serves {path}: {error}") from error
    raise SocketError(f"another process serves {path}; stop it or choose another endpoint")


def identity(path: Path) -> tuple[int, int] | None:
    """The identity of the file: another process may put its own there."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
