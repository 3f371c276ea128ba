"""Puts a program into the wheel, and names the platform that it is for; conformance/packages/pack says which."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Program(BuildHookInterface):
    def initialize(self, version, build_data):
        try:
            program, platform = os.environ["OUTRIGGER_PROGRAM"], os.environ["OUTRIGGER_PLATFORM"]
        except KeyError as missing:
            raise SystemExit(f"{missing} is not set: a wheel is made by conformance/packages/pack") from None
        build_data["force_include"][program] = "outrigger_conformance/provider-conformance"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
