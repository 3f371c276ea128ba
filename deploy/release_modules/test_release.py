"""A release of tiny programs and images: it is whole, reproducible, and each fault is found."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import archives
import artifacts
import bill
import changelog
import layout
import provenance
import verify
import versions
from source import REPOSITORY, Source

PACKAGES = ["conformance-1.jar", "outrigger-conformance-1.tgz", "outrigger_conformance-1-py3-none-any.whl"]
ARCHITECTURES = ["amd64", "arm64"]
LOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n- One, at\n  [docs](docs/a.md).\n\n## [0.0.1] - 2026-01-01\n\n### Fixed\n- Old.\n"


class Whole(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.scratch)
        self.source = Source()
        self.source.is_clean = True
        self.version = self.source.version

    def release(self, name="release"):
        directory = self.scratch / name
        directory.mkdir()
        release = artifacts.Release(directory, self.source, {"version": self.version})
        parts = [{"name": "serde", "version": "1.0.0", "purl": "pkg:cargo/serde@1.0.0"}]
        for arch in ARCHITECTURES:
            release.programs("provider-mock", arch, {"provider-mock": f"program {arch}".encode()}, parts)
        for file in PACKAGES:
            release.package(file, "provider-conformance", b"package", parts)
        for image in [artifacts.CONTROLLER, "provider-mock"]:
            release.image(image, {arch: self.built(image, arch, parts) for arch in ARCHITECTURES})
        release.chart()
        release.kustomize()
        release.finish("registry.example/", changelog.cut(LOG, self.version, "2026-02-02"))
        return directory

    def built(self, name, arch, parts):
        """The files of `deploy/images/build`, of an image with one tiny layer."""
        stem = self.scratch / f"{name}-{self.version}-{arch}"
        files = []

        def blob(content):
            digest = f"sha256:{artifacts.sha256(content)}"
            files.append((layout.blob(digest), 0o644, content))
            return {"digest": digest, "size": len(content), "mediaType": "application/octet-stream"}

        manifest = {"config": blob(f"config {name} {arch}".encode()), "layers": [blob(f"layer {name} {arch}".encode())]}
        top = blob(json.dumps(manifest).encode())
        top["annotations"] = {"org.opencontainers.image.ref.name": f"registry.example/{name}:{self.version}"}
        files.append(("index.json", 0o644, json.dumps({"manifests": [top]}).encode()))
        files.append(("oci-layout", 0o644, b'{"imageLayoutVersion": "1.0.0"}'))
        stem.with_name(f"{stem.name}.oci.tar").write_bytes(archives.pack(files, 0))
        statement = provenance.statement({name: top["digest"]}, "deploy/images/build", {}, self.source, parts)
        stem.with_name(f"{stem.name}.intoto.json").write_bytes(artifacts.document(statement))
        document = bill.document("container", name, top["digest"], self.source, parts)
        stem.with_name(f"{stem.name}.cdx.json").write_bytes(artifacts.document(document))
        return stem

    def faults_after(self, change, sums=True):
        """The faults of a release that a function changed; its checksums are made again, so that they hide nothing."""
        directory = self.release(f"release-{len(list(self.scratch.iterdir()))}")
        self.assertEqual(list(verify.faults(directory)), [])
        change(directory)
        if sums:
            lines = [f"{artifacts.sha256(path.read_bytes())}  {path.name}\n"
                     for path in sorted(directory.iterdir()) if path.name != artifacts.SUMS]
            (directory / artifacts.SUMS).write_text("".join(lines))
        return "\n".join(verify.faults(directory))

    def test_two_releases_of_a_commit_are_the_same(self):
        first, second = self.release("first"), self.release("second")
        self.assertEqual((first / artifacts.SUMS).read_bytes(), (second / artifacts.SUMS).read_bytes())
        # Flags, that is no name, and the time in the header of gzip, which both may have had by chance.
        self.assertEqual((first / f"outrigger-{self.version}.tgz").read_bytes()[3:8], bytes(5))

    def test_chart_and_overlays_have_the_controller_by_its_digest(self):
        directory = self.release()
        digest, _, _ = layout.digests(directory / f"{artifacts.CONTROLLER}-{self.version}.oci.tar")
        chart = archives.read(directory / f"outrigger-{self.version}.tgz")
        self.assertIn(f'cloud-controller-manager"\n    # Tag; empty: the chart\'s `appVersion`.\n    tag: ""\n    # Digest such as '
                      f'`sha256:…`; it counts instead of the tag.\n    digest: "{digest}"', chart["outrigger/values.yaml"].decode())
        overlay = archives.read(directory / f"outrigger-kustomize-{self.version}.tar.gz")
        deployment = overlay[f"outrigger-kustomize-{self.version}/overlays/deployment/deployment.yaml"].decode()
        self.assertIn(f'image: "ghcr.io/outrigger-dev/cloud-controller-manager@{digest}"', deployment)

    def test_changed_missing_and_added_files_are_found(self):
        name = f"provider-mock-{self.version}-linux-amd64.tar.gz"

        def changed(directory):
            (directory / name).write_bytes(b"other")

        self.assertIn(f"{name} has another checksum", self.faults_after(changed, sums=False))
        self.assertIn(f"{name}.intoto.json does not name the digest", self.faults_after(changed))
        self.assertIn(f"{name}.cdx.json does not name the digest", self.faults_after(changed))
        missing = self.faults_after(lambda directory: (directory / name).unlink())
        self.assertIn(f"{name}.cdx.json is about an artifact that is not there", missing)
        without = self.faults_after(lambda directory: (directory / f"{name}.cdx.json").unlink())
        self.assertIn(f"{name} or a file beside it cannot be read", without)
        added = self.faults_after(lambda directory: (directory / "more").write_text(""), sums=False)
        self.assertEqual(added, f"more is not in {artifacts.SUMS}")

    def test_each_package_has_its_provenance_and_its_bill(self):
        for file in PACKAGES:
            faults = self.faults_after(lambda directory, file=file: (directory / file).write_bytes(b"other"))
            self.assertIn(f"{file}.intoto.json does not name the digest", faults)
            self.assertIn(f"{file}.cdx.json does not name the digest", faults)

    def test_image_with_another_layer_or_of_another_release_is_found(self):
        name = f"provider-mock-{self.version}.oci.tar"

        def layer(content):
            def change(directory):
                files = archives.read(directory / name)
                damaged = next(file for file, content in files.items() if content.startswith(b"layer"))
                files[damaged] = content
                kept = [(file, 0o644, content) for file, content in files.items() if content is not None]
                (directory / name).write_bytes(archives.pack(kept, 0))

            return change

        self.assertRegex(self.faults_after(layer(b"other")), f"{name}: blobs/sha256/[0-9a-f]+ is missing or damaged")
        self.assertRegex(self.faults_after(layer(None)), f"{name}: sha256:[0-9a-f]+ is missing or damaged")

        def exchanged(directory):
            (directory / name).write_bytes((directory / f"{artifacts.CONTROLLER}-{self.version}.oci.tar").read_bytes())

        faults = self.faults_after(exchanged)
        self.assertIn(f"{name}.intoto.json does not name the image's digest", faults)
        self.assertIn(f"{name}.arm64.cdx.json does not name the image's digest", faults)

    def test_bills_and_provenance_refer_to_the_image_that_they_are_about(self):
        directory = self.release()
        name = f"provider-mock-{self.version}.oci.tar"
        files = archives.read(directory / name)
        _, by_arch, _ = layout.digests(directory / name)
        listed = json.loads(files["index.json"])["manifests"]
        # The image first, for tools that take the one with a name.
        self.assertEqual(["annotations" in part for part in listed], [True] + [False] * 4)
        for part in listed[1:]:
            manifest = json.loads(files[layout.blob(part["digest"])])
            self.assertIn(manifest["subject"]["digest"], by_arch.values())
            image = files[layout.blob(manifest["subject"]["digest"])]
            self.assertEqual(manifest["subject"]["size"], len(image))
        about = layout.referrers(directory / name)
        bill_of_arm = (directory / f"{name}.arm64.cdx.json").read_bytes()
        self.assertEqual(about[by_arch["arm64"], "application/vnd.cyclonedx+json"], bill_of_arm)

        def edited(directory):
            path = directory / f"{name}.amd64.cdx.json"
            path.write_text(path.read_text().replace("serde", "other"))

        self.assertIn(f"{name} does not refer to {name}.amd64.cdx.json", self.faults_after(edited))

    def test_a_signature_of_the_checksums_is_verified_and_holds_no_other_content(self):
        directory, key = self.release(), self.scratch / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        artifacts.sign(directory, f"ssh-keygen -Y sign -q -n outrigger-release -f {key}")
        signers = self.scratch / "signers"
        signers.write_text(f"releaser {key.with_suffix('.pub').read_text()}")

        def holds():
            command = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", "releaser", "-n", "outrigger-release",
                       "-s", directory / f"{artifacts.SUMS}.sig"]
            return subprocess.run(command, input=(directory / artifacts.SUMS).read_bytes(), capture_output=True).returncode == 0

        self.assertTrue(holds())
        self.assertEqual(list(verify.faults(directory)), [])
        with (directory / artifacts.SUMS).open("a") as sums:
            sums.write("0  more\n")
        self.assertFalse(holds())

    def test_chart_with_another_image_is_found(self):
        def replaced(directory):
            lines = (directory / artifacts.IMAGES).read_text()
            (directory / artifacts.IMAGES).write_text(lines.replace(lines[7:20], "0" * 13, 1))

        faults = self.faults_after(replaced)
        self.assertIn(f"outrigger-{self.version}.tgz has the images", faults)
        self.assertIn(f"outrigger-kustomize-{self.version}.tar.gz has the images", faults)

    def test_uncommitted_changes_and_two_commits_are_found(self):
        path = f"outrigger-{self.version}.tgz.intoto.json"

        def edited(old, new):
            return lambda directory: (directory / path).write_text((directory / path).read_text().replace(old, new))

        dirty = self.faults_after(edited('"uncommittedChanges": false', '"uncommittedChanges": true'))
        self.assertIn(f"{path}: built with changes that are not committed", dirty)
        self.assertIn("the release is of several commits", self.faults_after(edited(self.source.revision, "0" * 40)))


class Notes(unittest.TestCase):
    def test_section_of_a_release_is_its_notes(self):
        text = changelog.cut(LOG, "0.2.0", "2026-02-02")
        self.assertEqual(changelog.section(text, "Unreleased").strip(), "")
        self.assertEqual(changelog.notes(text, "0.2.0", "https://host"),
                         "### Added\n- One, at\n  [docs](https://host/blob/v0.2.0/docs/a.md).\n")
        self.assertIsNone(changelog.notes(text, "0.3.0", "https://host"))
        self.assertEqual(list(changelog.faults(text)), [])

    def test_entries_out_of_form_are_found(self):
        self.assertEqual(list(changelog.faults(LOG)), [])
        for old, new, fault in [
            ("- One", "One", "neither an entry"),
            ("### Added", "### Aded", "headings are"),
            ("## [0.0.1]", "### Added\n- Again.\n\n## [0.0.1]", "headings are"),
            ("## [0.0.1]", "### Fixed\n\n## [0.0.1]", "`### Fixed` has no entry"),
            ("## [Unreleased]", "## Unreleased", "has no section"),
        ]:
            self.assertIn(fault, "\n".join(changelog.faults(LOG.replace(old, new))))


class Versions(unittest.TestCase):
    def test_version_is_written_at_each_place(self):
        with tempfile.TemporaryDirectory() as scratch:
            copy = pathlib.Path(scratch)
            for name in {name for pattern in versions.PLACES for name in versions.names(REPOSITORY, pattern)}:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(REPOSITORY / name, copy / name)
            versions.change(copy, "7.8.9-rc.1")
            self.assertEqual(list(versions.faults(copy, "7.8.9-rc.1")), [])
            # The number from before is nowhere left, except as that of a dependency.
            self.assertNotIn(versions.current(REPOSITORY), (copy / "deploy/chart/outrigger/Chart.yaml").read_text())
            versions.change(copy, "7.8.9")
            lock = copy / "Cargo.lock"
            lock.write_text(lock.read_text().replace('version = "7.8.9"', 'version = "7.8.8"', 1))
            (copy / "provider-mock/README.md").write_text("")
            first, second = versions.faults(copy, "7.8.9")
            self.assertRegex(first, r"^Cargo\.lock:\d+ has the version 7\.8\.8, not 7\.8\.9$")
            self.assertTrue(second.startswith("provider-mock/README.md: no version stands"))
