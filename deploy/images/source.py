"""The commit that images and releases are built from."""

import os
import pathlib
import re
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent


class Source:
    """The commit of the clone, its version, and the time that all files get."""

    def __init__(self, version=None):
        manifest = (REPOSITORY / "Cargo.toml").read_text()
        self.repository = REPOSITORY
        self.version = version or re.search(r'(?m)^version = "(.+)"', manifest)[1]
        self.revision = git("rev-parse", "HEAD")
        self.is_clean = not git("status", "--porcelain")
        # The time of every file, layer and image.
        self.epoch = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct")


def git(*args):
    return subprocess.run(["git", "-C", REPOSITORY, *args], check=True, capture_output=True, text=True).stdout.strip()
