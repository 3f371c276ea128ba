"""Makes the messages of the contract from proto/, whatever is built. An sdist has them, since it has no proto/."""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import setup

ROOT = Path(__file__).resolve().parent
PROTO = ROOT.parents[1] / "proto"


def generate(out: Path) -> None:
    """Writes the files of `out` that are not as the contract has them."""
    files = sorted(str(file) for file in PROTO.glob("cloudprovider/v1/*.proto"))
    with TemporaryDirectory() as made:
        # The .pyi files are those that type checkers read.
        options = [f"-I{PROTO}", f"-I{PROTO / 'googleapis'}", f"--python_out={made}", f"--mypy_out=quiet:{made}"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *files], check=True)
        for file in Path(made, "cloudprovider/v1").iterdir():
            # The modules are this package's, whatever else is called cloudprovider.
            text = re.sub(r"^from cloudprovider\.v1 import", "from . import", file.read_text(), flags=re.MULTILINE)
            text = re.sub(r"'cloudprovider\.v1\.(\w+_pb2)'", r"'outrigger_provider.v1.\1'", text)
            target = out / file.name
            if not target.exists() or target.read_text() != text:
                target.write_text(text)


if PROTO.is_dir():
    generate(ROOT / "src/outrigger_provider/v1")
setup()
