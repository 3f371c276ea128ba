"""The command itself, in a small clone: it makes no release that cannot be trusted."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import versions
from source import REPOSITORY


class Refusals(unittest.TestCase):
    def setUp(self):
        self.clone = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.clone)
        files = {name for pattern in versions.PLACES for name in versions.names(REPOSITORY, pattern)}
        for folder in ["deploy/release_modules", "deploy/images"]:
            files |= {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / folder).glob("*.py")}
        for name in files | {"deploy/release", ".gitignore"}:
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, self.clone / name)
        (self.clone / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n### Added\n- One.\n")
        self.git("init", "--quiet")
        self.commit("first")

    def git(self, *words):
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid"]
        subprocess.run(["git", "-C", self.clone, *identity, *words], check=True, capture_output=True)

    def commit(self, message):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def release(self, *words):
        """The exit code, and all that was written."""
        ended = subprocess.run([self.clone / "deploy/release", *words], capture_output=True, text=True)
        return ended.returncode, ended.stdout + ended.stderr

    def refused(self, *words):
        code, output = self.release(*words)
        self.assertEqual(code, 1, output)
        return output

    def test_release_is_refused_with_all_reasons(self):
        self.assertIn("1.2 is no version of SemVer", self.refused("1.2"))
        self.assertIn("1.2 is no version of SemVer", self.refused("set-version", "1.2"))
        unprepared = self.refused("7.8.9")
        self.assertIn("Cargo.lock:", unprepared)
        self.assertIn("CHANGELOG.md has no section [7.8.9]", unprepared)
        code, output = self.release("set-version", "7.8.9")
        self.assertEqual(code, 0, output)
        self.assertEqual(self.refused("7.8.9"), "the clone has changes that are not committed, or files that are not tracked\n")
        self.assertIn("has a section [7.8.9] already", self.refused("set-version", "7.8.9"))
        self.git("tag", "--annotate", "v7.8.9", "--message", "too early")
        self.commit("release")
        (self.clone / "target/release-7.8.9").mkdir(parents=True)
        late = self.refused("7.8.9").splitlines()
        self.assertRegex(late[0], "^the tag v7.8.9 is at another commit, [0-9a-f]{12}$")
        self.assertRegex(late[1], "target/release-7.8.9 exists: take it away first$")
        self.assertEqual(len(late), 2)
        # A tag at this commit is no reason.
        self.git("tag", "--force", "--annotate", "v7.8.9", "--message", "now")
        self.assertNotIn("tag", self.refused("7.8.9"))

    def test_release_that_is_not_whole_fails_its_verification(self):
        self.assertIn("has no SHA256SUMS", self.refused("verify", str(self.clone)))
