"""The files of a release, from programs and images that are built."""

import hashlib
import json
import re
import shlex
import subprocess

import archives
import bill
import changelog
import layout
import provenance
from source import git

CONTROLLER = "cloud-controller-manager"
CHART = "deploy/chart/outrigger"
KUSTOMIZE = "deploy/kustomize"
SUMS = "SHA256SUMS"
IMAGES = "IMAGES"
NOTES = "RELEASE-NOTES.md"


class Release:
    """A directory, to which each artifact is added with its provenance."""

    def __init__(self, directory, source, parameters):
        self.directory = directory
        self.source = source
        self.parameters = parameters
        self.images = {}

    def programs(self, name, arch, contents, components):
        """An archive of programs, by their names, and the licence."""
        stem = f"{name}-{self.source.version}-linux-{arch}"
        licence = (self.source.repository / "LICENSE").read_bytes()
        files = [(f"{stem}/{program}", 0o755, content) for program, content in contents.items()]
        files.append((f"{stem}/LICENSE", 0o644, licence))
        self.package(f"{stem}.tar.gz", name, archives.compress(archives.pack(files, self.source.epoch)), components)

    def package(self, file, name, content, components):
        """Anything that has programs in it, with its bill of materials."""
        digest = self.artifact(file, content, components)
        self.write(f"{file}.cdx.json", document(bill.document("application", name, digest, self.source, components)))

    def image(self, name, built):
        """The images of one name by architecture, as `deploy/images/build` has left them, in one archive."""
        packed, digest, _ = layout.join(built, self.source.epoch)
        archive = f"{name}-{self.source.version}.oci.tar"
        self.images[name] = digest
        self.artifact(archive, packed, [], {name: digest})
        for arch, stem in built.items():
            for kind in ["cdx.json", "intoto.json"]:
                self.write(f"{archive}.{arch}.{kind}", stem.with_name(f"{stem.name}.{kind}").read_bytes())

    def chart(self):
        """The chart, whose default is the controller's image by its digest."""
        def pinned(name, text):
            if name != f"{CHART}/values.yaml":
                return text
            return replace_once(r'(?m)^(controller:\n(?:  .*\n|\n)*?    digest: )""', rf'\1"{self.images[CONTROLLER]}"', text)

        files = [(f"outrigger/{name.removeprefix(CHART + '/')}", mode, content) for name, mode, content in self.tracked(CHART, pinned)]
        self.artifact(f"outrigger-{self.source.version}.tgz", archives.compress(archives.pack(files, self.source.epoch)), [])

    def kustomize(self):
        """The overlays, with the controller's image by its digest."""
        def pinned(_, text):
            return text.replace(f'/{CONTROLLER}:{self.source.version}"', f'/{CONTROLLER}@{self.images[CONTROLLER]}"')

        stem = f"outrigger-kustomize-{self.source.version}"
        files = [(f"{stem}/{name.removeprefix(KUSTOMIZE + '/')}", mode, content)
                 for name, mode, content in self.tracked(KUSTOMIZE, pinned)]
        self.artifact(f"{stem}.tar.gz", archives.compress(archives.pack(files, self.source.epoch)), [])

    def finish(self, prefix, log):
        """Notes from the changelog, digests of images, and the checksums of all files, which come last."""
        self.write(NOTES, changelog.notes(log, self.source.version, provenance.HOME).encode())
        self.write(IMAGES, "".join(f"{digest}  {prefix}{name}:{self.source.version}\n"
                                   for name, digest in sorted(self.images.items())).encode())
        sums = "".join(f"{sha256(path.read_bytes())}  {path.name}\n" for path in sorted(self.directory.iterdir()))
        self.write(SUMS, sums.encode())

    def artifact(self, name, content, components, also=None):
        digest = sha256(content)
        self.write(name, content)
        statement = provenance.statement({name: digest, **(also or {})}, "deploy/release", self.parameters, self.source, components)
        self.write(f"{name}.intoto.json", document(statement))
        return digest

    def write(self, name, content):
        (self.directory / name).write_bytes(content)

    def tracked(self, folder, edit):
        for name in git("ls-files", folder).splitlines():
            path = self.source.repository / name
            mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            yield name, mode, edit(name, path.read_text()).encode()


def sign(directory, command):
    """Runs any command that signs a file, with the checksums as its last word: they name all other files."""
    subprocess.run([*shlex.split(command), SUMS], check=True, cwd=directory)


def replace_once(pattern, replacement, text):
    text, count = re.subn(pattern, replacement, text)
    if count != 1:
        raise ValueError(f"{pattern} is there {count} times, not once")
    return text


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def document(content):
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()
