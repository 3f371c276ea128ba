"""The program provider-conformance, which holds a cloud provider against the contract, and is in this package."""

import os
import sys
from pathlib import Path

PATH = Path(__file__).with_name("provider-conformance")


def main() -> None:
    """Becomes the program."""
    os.execv(PATH, [str(PATH), *sys.argv[1:]])  # noqa: S606
