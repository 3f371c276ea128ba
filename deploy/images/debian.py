"""Files of Debian packages, without installing them: apt downloads and checks signatures, dpkg-deb unpacks."""

import fcntl
import pathlib
import shutil
import subprocess
import tempfile
import urllib.parse

SUITE = "trixie"
CACHE = pathlib.Path(__file__).resolve().parent.parent.parent / "target/images-cache"

SOURCES = f"""\
Types: deb
URIs: http://deb.debian.org/debian
Suites: {SUITE} {SUITE}-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: {SUITE}-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""

# Parts of packages that no program of an image opens. The copyright of each package stays.
LEFT_OUT = ["usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bash-completion", "usr/lib/*/gconv",
            "usr/share/gdb", "usr/share/pixmaps", "usr/share/applications", "usr/share/nodejs/@types", "usr/lib/*/audit"]


class Packages:
    """Packages of one architecture, from an apt of its own."""

    def __init__(self, arch):
        self.arch = arch
        self.components = []
        self.home = CACHE / f"apt-{arch}"
        self.is_fresh = False

    def unpack(self, root, *names):
        """The files of the newest version of each package, below root."""
        self.refresh()
        with tempfile.TemporaryDirectory() as debs:
            self.apt("apt-get", "--quiet=2", "download", *names, cwd=debs)
            for deb in sorted(pathlib.Path(debs).iterdir()):
                subprocess.run(["dpkg-deb", "--extract", deb, root], check=True)
                self.note(root, deb)
        # These directories are links since Debian merged them into /usr.
        for link in ["bin", "lib", "lib64", "sbin"]:
            if (root / "usr" / link).is_dir() and not (root / link).is_symlink():
                (root / link).symlink_to(f"usr/{link}")
        for pattern in LEFT_OUT:
            for path in root.glob(pattern):
                shutil.rmtree(path)
        for path in root.glob("usr/share/doc/*/*"):
            if path.name != "copyright":
                path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)

    def authorities(self, root):
        """CA certificates in one file, as update-ca-certificates makes it."""
        self.unpack(root, "ca-certificates")
        store = root / "usr/share/ca-certificates/mozilla"
        bundle = root / "etc/ssl/certs/ca-certificates.crt"
        bundle.parent.mkdir(parents=True, exist_ok=True)
        bundle.write_text("".join(path.read_text() for path in sorted(store.glob("*.crt"))))
        for left in [root / "usr/sbin", root / "etc/ca-certificates", root / "usr/share/ca-certificates"]:
            shutil.rmtree(left, ignore_errors=True)
        (root / "sbin").unlink(missing_ok=True)

    def refresh(self):
        if self.is_fresh:
            return
        for part in ["lists/partial", "cache/archives/partial"]:
            (self.home / part).mkdir(parents=True, exist_ok=True)
        with (self.home / "lock").open("w") as lock:
            # apt itself does not wait for another one.
            fcntl.flock(lock, fcntl.LOCK_EX)
            (self.home / "status").write_text("")
            (self.home / "debian.sources").write_text(SOURCES)
            self.apt("apt-get", "--quiet=2", "update")
        self.is_fresh = True

    def apt(self, *command, cwd=None):
        settings = {"Dir::State": self.home, "Dir::State::lists": self.home / "lists", "Dir::State::status": self.home / "status",
                    "Dir::Cache": self.home / "cache", "Dir::Etc::sourcelist": self.home / "debian.sources",
                    "Dir::Etc::sourceparts": "-", "APT::Architecture": self.arch, "APT::Architectures": self.arch,
                    "APT::Sandbox::User": "root"}
        flags = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        subprocess.run([command[0], *flags, *command[1:]], check=True, cwd=cwd, stdout=subprocess.DEVNULL)

    def note(self, root, deb):
        """For the bill of materials, and where scanners of images look for packages."""
        control = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True).stdout
        fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line and not line.startswith(" "))
        name, version = fields["Package"], fields["Version"]
        status = root / "var/lib/dpkg/status.d" / name
        status.parent.mkdir(parents=True, exist_ok=True)
        status.write_text(control)
        digest = subprocess.run(["sha256sum", deb], check=True, capture_output=True, text=True).stdout.split()[0]
        quoted = urllib.parse.quote(version, safe="")
        self.components.append({
            "name": name, "version": version, "sha256": digest,
            "purl": f"pkg:deb/debian/{name}@{quoted}?arch={fields['Architecture']}&distro={SUITE}",
        })
