"""The check of advisories, over lock files and a copy of databases that are made here."""

import datetime
import json
import pathlib
import runpy
import subprocess
import tempfile
import unittest
import zipfile

COMMAND = pathlib.Path(__file__).resolve().parent / "advisories"
TODAY = datetime.datetime.now(datetime.UTC).date()
LOCKS = {
    "Cargo.lock": '[[package]]\nname = "h2"\nversion = "0.4.3"\nsource = "registry"\n\n[[package]]\nname = "ours"\nversion = "0.1.0"\n',
    "providers/aws/go.mod": "module x\n\nrequire (\n\tgolang.org/x/net v0.20.0\n\tk8s.io/api v0.0.0 // indirect\n)\n\nreplace k8s.io/api => k8s.io/api v0.36.3\n",
    "testbed/go.mod": "module y\n\nrequire golang.org/x/net v0.20.0\n",
    "deploy/images/python.txt": "gRPC_io==1.85.1 \\\n    --hash=sha256:0\n",
    "examples/node/package-lock.json": json.dumps({"packages": {"": {}, "node_modules/a/node_modules/@b/c": {"version": "1.0.0"}}}),
    "target/Cargo.lock": '[[package]]\nname = "h2"\nversion = "0.1.0"\nsource = "registry"\n',
}


def advisory(key, ecosystem, name, *events, **more):
    affected = {"package": {"ecosystem": ecosystem, "name": name}, "ranges": [{"type": "SEMVER", "events": list(events)}], **more}
    return {"id": key, "aliases": [f"CVE-{key}"], "summary": "It is bad", "affected": [affected]}


SINCE_EVER = {"introduced": "0"}
H2 = advisory("RUSTSEC-1", "crates.io", "h2", SINCE_EVER, {"fixed": "0.3.26"}, {"introduced": "0.4.0"}, {"fixed": "0.4.4"})


class Advisories(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name) / "root"
        (self.root / ".ci").mkdir(parents=True)
        for name, text in LOCKS.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run_with(self, *words):
        ended = subprocess.run([COMMAND, "--root", self.root, *words], capture_output=True, text=True)
        self.assertEqual(ended.stderr, "")
        return ended.returncode, ended.stdout

    def refresh(self, documents, age=0):
        copy = pathlib.Path(self.scratch.name) / "copy"
        copy.mkdir(exist_ok=True)
        for document in documents:
            (copy / f"{document['id']}.json").write_text(json.dumps(document))
        code, _ = self.run_with("--refresh", copy, "--date", str(TODAY - datetime.timedelta(days=age)))
        self.assertEqual(code, 0)
        return self.run_with()

    def test_a_fresh_hit_in_what_is_shipped_fails(self):
        code, output = self.refresh([H2])
        self.assertIn("ERROR: Cargo.lock: h2 0.4.3: RUSTSEC-1 It is bad", output)
        self.assertNotIn("target", output)
        self.assertEqual(code, 1)

    def test_an_old_or_absent_snapshot_warns_and_fails_nothing(self):
        code, output = self.run_with()
        self.assertEqual(code, 0)
        self.assertIn("WARNING: there is no .ci/advisories.json", output)
        code, output = self.refresh([H2], age=91)
        self.assertEqual(code, 0)
        self.assertIn("WARNING: .ci/advisories.json is 91 days old", output)
        self.assertIn("note: Cargo.lock: h2 0.4.3: RUSTSEC-1", output)
        self.assertEqual(self.refresh([H2], age=90)[0], 1)

    def test_an_ecosystem_and_a_package_without_knowledge_are_named(self):
        _, output = self.refresh([H2])
        for ecosystem in ["Go", "PyPI", "npm"]:
            self.assertIn(f"WARNING: .ci/advisories.json has nothing about {ecosystem}", output)
        (self.root / "Cargo.lock").write_text(LOCKS["Cargo.lock"].replace('"h2"', '"h3"'))
        self.assertIn("does not know 1 packages yet, such as h3", self.run_with()[1])

    def test_tools_are_counted_and_what_is_shipped_fails(self):
        code, output = self.refresh([advisory("GO-1", "Go", "golang.org/x/net", SINCE_EVER, {"fixed": "0.23.0"})])
        self.assertEqual(code, 1)
        self.assertIn("ERROR: providers/aws/go.mod: golang.org/x/net 0.20.0: GO-1", output)
        self.assertIn("note: testbed/go.mod: 1 advisories, of tools", output)

    def test_advisories_that_fail_nothing(self):
        for document in [
            advisory("A", "crates.io", "h2", SINCE_EVER, {"fixed": "0.4.3"}),
            advisory("B", "crates.io", "h2", SINCE_EVER, {"last_affected": "0.4.2"}),
            advisory("C", "crates.io", "h2", {"introduced": "0.4.4"}),
            advisory("D", "crates.io", "other", SINCE_EVER),
            advisory("E", "npm", "h2", SINCE_EVER),
            {**advisory("F", "crates.io", "h2", SINCE_EVER), "withdrawn": "2026-01-01T00:00:00Z"},
            advisory("G", "crates.io", "h2", SINCE_EVER, database_specific={"informational": "unmaintained"}),
        ]:
            with self.subTest(document):
                code, output = self.refresh([document])
                self.assertEqual(code, 0, output)
                (pathlib.Path(self.scratch.name) / "copy" / f"{document['id']}.json").unlink()

    def test_an_ignored_one_is_shown_with_its_reason_and_outlives_a_refresh(self):
        self.refresh([H2])
        path = self.root / ".ci/advisories.json"
        snapshot = json.loads(path.read_text())
        snapshot["ignored"] = {"CVE-RUSTSEC-1": "the server has no pushes"}
        path.write_text(json.dumps(snapshot))
        code, output = self.refresh([H2])
        self.assertEqual(code, 0)
        self.assertIn("(ignored: the server has no pushes)", output)

    def test_archives_names_of_python_and_scopes_of_npm(self):
        archive = pathlib.Path(self.scratch.name) / "all.zip"
        with zipfile.ZipFile(archive, "w") as content:
            content.writestr("P.json", json.dumps(advisory("P", "PyPI", "grpc.io", SINCE_EVER)))
            content.writestr("N.json", json.dumps(advisory("N", "npm", "@b/c", SINCE_EVER)))
        self.run_with("--refresh", archive)
        code, output = self.run_with()
        self.assertEqual(code, 1)
        self.assertIn("ERROR: deploy/images/python.txt: grpc-io 1.85.1: P", output)
        self.assertIn("note: examples/node/package-lock.json: 1 advisories", output)

    def test_order_of_versions(self):
        order = runpy.run_path(str(COMMAND))["order"]
        versions = ["0", "0.0.0-20190125", "0.0.0-20210520", "0.0.1-alpha", "0.0.1-alpha.1", "0.0.1-beta.2", "0.0.1-beta.11", "0.0.1", "v1.9.0",
                    "1.10.0+incompatible", "1.85.1"]
        self.assertEqual(sorted(reversed(versions), key=order), versions)


if __name__ == "__main__":
    unittest.main(verbosity=0)
