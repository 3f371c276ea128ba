"""Generates the code of the contract into src/cloudprovider before the package is built."""

import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
# A copy beside this file comes first, for a provider in a repository of its own.
PROTO = next(path for path in (HERE / "proto", HERE.parents[1] / "proto") if path.is_dir())
# Listed in pyproject.toml, so it has to be there before it is filled.
(HERE / "src/cloudprovider/v1").mkdir(parents=True, exist_ok=True)


class Build(build_py):
    def run(self) -> None:
        out = HERE / "src"
        protos = sorted(str(path) for path in (PROTO / "cloudprovider/v1").glob("*.proto"))
        # The last two are the stubs that mypy reads, made by mypy-protobuf.
        kinds = ("--python_out=", "--grpc_python_out=", "--mypy_out=quiet:", "--mypy_grpc_out=quiet,only_async:")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"-I{PROTO / 'googleapis'}"]
        subprocess.run([*command, *(f"{kind}{out}" for kind in kinds), *protos], check=True)  # noqa: S603
        (out / "cloudprovider/v1/py.typed").touch()
        super().run()


setup(cmdclass={"build_py": Build})
