"""Plugin of pytest: a file of inputs named to pytest, as an argument or in testpaths, gives a test for each case."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import PATH

NAMES = ("inputs.yaml", "conformance.yaml")
# The first test. It fails by itself for what concerns no case.
RUN = "run"


class NotKeptError(Exception):
    """The provider does not keep the contract, or could not be judged."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("conformance_args", "arguments of `provider-conformance run`, such as --allow-mutations", type="args")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    # The suite starts programs and may change a cloud: only where the file is named, not where a folder has it.
    if file_path.name.endswith(NAMES) and parent.session.isinitpath(file_path):
        return Inputs.from_parent(parent, path=file_path)
    return None


class Inputs(pytest.File):
    """A file of inputs, and the run with them."""

    report: "Report | None" = None

    def collect(self) -> Iterator[pytest.Item]:
        try:
            listed = run("list", "--format=json", check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise self.CollectError(f"{PATH} does not run here: {error}") from error
        yield Case.from_parent(self, name=RUN)
        for case in json.loads(listed.stdout):
            yield Case.from_parent(self, name=f"{case['id']}[{case['title']}]")

    def judge(self, name: str) -> None:
        """Ends a test as the run has ended its case. The first test of the file runs the suite."""
        if self.report is None:
            tests = [item.name.partition("[")[0] for item in self.session.items if item.parent is self]
            self.report = Report(self.path, self.config.getini("conformance_args"), tests)
            if self.report.fault:
                raise NotKeptError(self.report.fault)
        if name != RUN:
            self.report.judge(self, name)


class Case(pytest.Item):
    """A case, or the run."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.config.pluginmanager.hasplugin("timeout"):
            # The suite has limits of its own, and the first test takes the time of all.
            self.add_marker(pytest.mark.timeout(0))

    def runtest(self) -> None:
        assert isinstance(self.parent, Inputs)  # noqa: S101
        self.parent.judge(self.name.partition("[")[0])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if excinfo.errisinstance(NotKeptError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class Report:
    """The report of one run."""

    def __init__(self, inputs: Path, args: list[str], tests: list[str]) -> None:
        self.strict = "--strict" in args
        self.cases: dict[str, dict[str, Any]] = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "report.json")
            ran = run("run", f"--inputs={inputs}", f"--report=json={path}", *selection(args, tests), *args)
            if not path.exists():
                # The provider's log is there, too.
                last = "\n".join(ran.stderr.splitlines()[-20:])
                self.fault = f"provider-conformance did not run the cases, exit code {ran.returncode}\n{last}"
                return
            report = json.loads(path.read_text())
        self.cases = {case["id"]: case for case in report["cases"]}
        faults = report["faults"] if ran.returncode else []
        # The rules of errors are kept by every call, also where the case of the rule is not selected.
        faults += [case["text"] for case in report["cases"] if self.failed(case) and case["id"] not in tests]
        self.fault = "\n".join(faults)

    def failed(self, case: dict[str, Any]) -> bool:
        return case["result"] == "failed" or (self.strict and case["result"] == "warning")

    def judge(self, test: pytest.Collector, name: str) -> None:
        if not self.cases:
            pytest.skip("the suite did not run; the first test of the file says why")
        case = self.cases.get(name)
        if not case:
            raise NotKeptError(f"the report has no case {name}")
        match case["result"]:
            case _ if self.failed(case):
                raise NotKeptError(case["text"])
            case "passed":
                if case["waiver"]:
                    test.warn(UserWarning(case["text"]))
            case "warning" | "note":
                test.warn(UserWarning(case["text"]))
            case "waived":
                pytest.xfail(case["text"])
            case "skipped":
                pytest.skip(case["because"])
            case other:
                raise NotKeptError(f"{name} ended in a way that this package does not know: {other}")


def selection(args: list[str], tests: list[str]) -> list[str]:
    """The cases that pytest runs, unless the arguments have a choice of their own."""
    cases = [name for name in tests if name != RUN]
    return [f"--only={','.join(cases)}"] if cases and not any(arg.startswith("--only") for arg in args) else []


def run(*words: str, check: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs the program; a `python` of the inputs is the one of these tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.run([PATH, *words], capture_output=True, text=True, check=check, env=os.environ | {"PATH": path})  # noqa: S603
