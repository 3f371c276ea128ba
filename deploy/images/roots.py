"""The root directory of each image."""

import hashlib
import os
import pathlib
import re
import shutil
import ssl
import struct
import subprocess
import tempfile
import typing
import zipfile

import bill

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class Program(typing.NamedTuple):
    """A program in Rust: its package, and the C library of its target. With musl it is static."""

    package: str
    libc: str = "gnu"

    def triple(self, arch):
        return f"{MACHINES[arch]}-unknown-linux-{self.libc}"


PROGRAMS = {
    "check-provider": Program("outrigger-testbed"),
    "cloud-controller-manager": Program("outrigger-controller"),
    # It runs beside providers in images of any kind.
    "provider-conformance": Program("outrigger-conformance", "musl"),
    "provider-linux": Program("outrigger-provider-linux"),
    "provider-mock": Program("outrigger-provider-mock"),
}


class Unavailable(Exception):
    """An image cannot be built for this architecture here, with the reason."""


def rust(name, destination):
    """A program with its dynamic libraries and CA certificates; one that is static alone."""

    def lay(root, packages, source, options):
        program = PROGRAMS[name]
        dev = options.profile == "dev"
        built = cargo_dev(name, source) if dev else cargo_release(name, options.arch, source)
        if dev or program.libc == "gnu":
            packages.unpack(root, "libc6", "libgcc-s1")
            packages.authorities(root)
        place(built, root / destination)
        starts(root, options, f"/{destination}", "--version")
        return list(bill.rust(program.package, program.triple(options.arch), source.repository))

    return lay


def cargo_dev(program, source):
    # It builds the whole workspace, so that crates have the features that a plain `cargo build` gives them.
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--workspace", "--bin", program], check=True, cwd=source.repository)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or source.repository / "target")
    stripped = source.repository / "target/images-cache" / program
    stripped.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "-o", stripped, target / "debug" / program], check=True)
    return stripped


# Puts the list of crates into a program, where scanners of images find it.
AUDITABLE = "0.7.7"


def cargo_release(name, arch, source):
    package, triple = PROGRAMS[name].package, PROGRAMS[name].triple(arch)
    available = subprocess.run(["rustup", "target", "add", triple], cwd=source.repository, capture_output=True, text=True)
    if available.returncode != 0:
        raise Unavailable(f"rustup has no target {triple} here: {available.stderr.strip().splitlines()[-1]}")
    environment = dict(os.environ)
    # Only these decide how the program is compiled.
    for name in [name for name in environment if name.startswith(("CARGO_PROFILE_", "CARGO_INCREMENTAL", "RUSTFLAGS"))]:
        del environment[name]
    home = os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo"
    environment |= {
        "RUSTFLAGS": f"--remap-path-prefix={home}=/cargo --remap-path-prefix={source.repository}=/outrigger",
        "OUTRIGGER_GIT_COMMIT": source.revision,
        "OUTRIGGER_GIT_TREE_STATE": "clean" if source.is_clean else "dirty",
        "OUTRIGGER_BUILD_DATE": timestamp(source.epoch),
    }
    if arch == "arm64" and os.uname().machine != "aarch64":
        compiler = "aarch64-linux-gnu-gcc"
        if not shutil.which(compiler):
            raise Unavailable(f"there is no {compiler}, which is in Debian's gcc-aarch64-linux-gnu")
        target = triple.replace("-", "_")
        environment |= {f"CARGO_TARGET_{target.upper()}_LINKER": compiler, f"CC_{target}": compiler}
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or source.repository / "target")
    tools = target / "ci-tools"
    subprocess.run(["cargo", "install", "--quiet", "--locked", "--root", tools, "--version", AUDITABLE, "cargo-auditable"],
                   check=True, cwd=source.repository)
    environment["PATH"] = f"{tools / 'bin'}:{environment['PATH']}"
    subprocess.run(["cargo", "auditable", "build", "--quiet", "--locked", "--release", "--target", triple, "--package", package,
                    "--bin", name], check=True, cwd=source.repository, env=environment)
    built = target / triple / "release" / name
    if b".dep-v0" not in built.read_bytes():
        raise Unavailable(f"{name} has no list of its crates: cargo-auditable has put none in")
    return built


def go(directory, package):
    """A static program, and CA certificates."""

    def lay(root, packages, source, options):
        binary = root / "provider"
        subprocess.run(["go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", binary, package],
                       check=True, cwd=source.repository / directory,
                       env=os.environ | {"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": options.arch, "GOWORK": "off"})
        packages.authorities(root)
        return list(bill.go(binary))

    return lay


def python(root, packages, source, options):
    """Debian's interpreter, wheels by their checksums, the SDK and the example."""
    packages.unpack(root, "libc6", "libgcc-s1", "libstdc++6", "python3.13-minimal", "libpython3.13-minimal",
                    "libpython3.13-stdlib", "libexpat1", "zlib1g", "libssl3t64", "libzstd1", "libffi8")
    starts(root, options, "/usr/bin/python3.13", "-B", "-c", "import asyncio, ctypes, ssl")
    packages.authorities(root)
    site = root / "provider"
    machine = MACHINES[options.arch]
    with tempfile.TemporaryDirectory() as wheels:
        pip = ["python3", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "download", "--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", wheels,
                        "--python-version", "3.13", "--implementation", "cp", "--platform", f"manylinux2014_{machine}",
                        "--requirement", source.repository / "deploy/images/python.txt"], check=True)
        projects = [source.repository / "sdk/python", source.repository / "examples/python"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, *projects], check=True)
        for wheel in sorted(pathlib.Path(wheels).glob("*.whl")):
            zipfile.ZipFile(wheel).extractall(site)
    for record in site.glob("*.dist-info/RECORD"):
        record.unlink()
    return list(bill.python(site))


def node(root, packages, source, options):
    """Debian's interpreter, packages of the SDK's lock file, the SDK and the example, which needs nothing else."""
    packages.unpack(root, "libc6", "libgcc-s1", "libstdc++6", "nodejs", "libnode115", "libbrotli1", "libcares2", "libicu76",
                    "libnghttp2-14", "libuv1t64", "node-acorn", "node-cjs-module-lexer", "node-minimatch", "node-undici",
                    "zlib1g", "libssl3t64", "libzstd1")
    starts(root, options, "/usr/bin/node", "--eval", "fetch")
    packages.authorities(root)
    sdk, example = source.repository / "sdk/typescript", source.repository / "examples/node"
    npm = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
    for package in [sdk, example]:
        subprocess.run(npm, check=True, cwd=package, stdout=subprocess.DEVNULL)
        subprocess.run(["npm", "run", "--loglevel=error", "build"], check=True, cwd=package, stdout=subprocess.DEVNULL)
    site = root / "provider"
    site.mkdir()
    for name in ["package.json", "package-lock.json"]:
        shutil.copy(sdk / name, site)
    subprocess.run([*npm, "--omit=dev", "--ignore-scripts"], check=True, cwd=site, stdout=subprocess.DEVNULL)
    # npm's own notes about the installation.
    (site / "node_modules/.package-lock.json").unlink(missing_ok=True)
    (site / "package-lock.json").unlink()
    installed = site / "node_modules/@outrigger/provider"
    installed.mkdir(parents=True)
    (site / "package.json").rename(installed / "package.json")
    shutil.copytree(sdk / "dist/src", installed / "dist/src")
    shutil.copy(example / "package.json", site)
    shutil.copytree(example / "dist/src", site / "dist/src")
    return list(bill.node(site))


def java(root, packages, source, options):
    """Debian's runtime, the SDK with its libraries, and the example."""
    packages.unpack(root, "libc6", "libgcc-s1", "libstdc++6", "openjdk-21-jre-headless", "zlib1g")
    home = f"usr/lib/jvm/java-21-openjdk-{options.arch}"
    (root / "usr/bin").mkdir(exist_ok=True)
    (root / "usr/bin/java").symlink_to(f"/{home}/bin/java")
    # In a container it finds itself by /proc.
    starts(root, options, f"/{home}/bin/java", "-version", LD_LIBRARY_PATH=f"/{home}/lib")
    packages.authorities(root)
    trust(root, source.epoch)
    example = source.repository / "examples/java"
    for project, goal in [(source.repository / "sdk/java", "install"), (example, "package")]:
        subprocess.run(["mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", "-DskipTests", "clean", goal], check=True, cwd=project,
                       stdout=subprocess.DEVNULL)
    place(example / "target/example-provider.jar", root / "provider/example-provider.jar")
    shutil.copytree(example / "target/lib", root / "provider/lib")
    return list(bill.java(example))


def trust(root, epoch):
    """The CA certificates as Java reads them: a key store (JKS), which ca-certificates-java makes when it is installed."""
    pem = (root / "etc/ssl/certs/ca-certificates.crt").read_text()
    certificates = re.findall("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", pem, re.DOTALL)
    text = lambda value: struct.pack(">H", len(value)) + value.encode()
    store = struct.pack(">LLL", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        encoded = ssl.PEM_cert_to_DER_cert(certificate)
        # A trusted certificate: its name, the milliseconds since 1970, its kind and its bytes.
        store += struct.pack(">L", 2) + text(f"ca-{number}") + struct.pack(">Q", int(epoch) * 1000)
        store += text("X.509") + struct.pack(">L", len(encoded)) + encoded
    # The digest is over the usual password and the words that the format has.
    store += hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store).digest()
    path = root / "etc/ssl/certs/java/cacerts"
    path.parent.mkdir()
    path.write_bytes(store)


# curl and the libraries that it is linked with.
CURL = ["curl", "libc6", "libgcc-s1", "libbrotli1", "libcom-err2", "libcurl4t64", "libffi8", "libgmp10", "libgnutls30t64",
        "libgssapi-krb5-2", "libhogweed6t64", "libidn2-0", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0",
        "libldap2", "libnettle8t64", "libnghttp2-14", "libnghttp3-9", "libp11-kit0", "libpsl5t64", "librtmp1", "libsasl2-2",
        "libssh2-1t64", "libssl3t64", "libtasn1-6", "libunistring5", "libzstd1", "zlib1g"]


def linux(root, packages, source, options):
    """The provider, and Debian's programs that it runs."""
    components = rust("provider-linux", "provider")(root, packages, source, options)
    packages.unpack(root, "conntrack", "iproute2", "nftables", "libbpf1", "libbsd0", "libcap2", "libedit2", "libelf1t64", "libgmp10",
                    "libjansson4", "libmd0", "libmnl0", "libnetfilter-conntrack3", "libnfnetlink0", "libnftables1", "libnftnl11",
                    "libpcre2-8-0", "libselinux1", "libtinfo6", "libtirpc3t64", "libxtables12", "libzstd1", "zlib1g")
    for program in ["nft", "ip", "conntrack"]:
        starts(root, options, program, "--version" if program == "conntrack" else "-V")
    return components


def curl(root, packages, source, options):
    """Debian's."""
    packages.unpack(root, *CURL)
    starts(root, options, "/usr/bin/curl", "--version")
    packages.authorities(root)
    return []


# From busybox. Its shell is left out: it takes its own nc.
TOOLS = ["cat", "cp", "date", "echo", "env", "false", "grep", "head", "hostname", "id", "ip", "ls", "mkdir", "nslookup", "ps", "rm",
         "seq", "sleep", "stat", "tail", "test", "timeout", "touch", "true", "wget"]


def agnhost(root, packages, source, options):
    """The program of upstream's tests, and the commands that they run beside it: a shell and its tools, curl and nc."""
    packages.unpack(root, "busybox-static", "dash", "netcat-openbsd", "libbsd0", "libmd0", *CURL)
    (root / "usr/bin/nc").symlink_to("nc.openbsd")
    for tool in TOOLS:
        (root / "usr/bin" / tool).symlink_to("busybox")
    starts(root, options, "/usr/bin/sh", "-c", "nc -h 2>&1 && curl --version")
    components = go("testbed/control-plane/kubernetes", "k8s.io/kubernetes/test/images/agnhost")(root, packages, source, options)
    (root / "provider").rename(root / "agnhost")
    return components


def starts(root, options, *command, **environment):
    """An error if a library is missing, which would else be seen in a cluster."""
    emulator = shutil.which(f"qemu-{MACHINES[options.arch]}-static")
    if MACHINES[options.arch] == os.uname().machine:
        subprocess.run(["unshare", "--map-root-user", "chroot", root, *command], check=True, stdout=subprocess.DEVNULL,
                       env=os.environ | environment)
    elif emulator:
        variables = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
        subprocess.run([emulator, "-L", root, *variables, f"{root}{command[0]}", *command[1:]], check=True, stdout=subprocess.DEVNULL)


def place(program, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, path)


def timestamp(epoch):
    return subprocess.run(["date", "--utc", f"--date=@{epoch}", "+%Y-%m-%dT%H:%M:%SZ"],
                          check=True, capture_output=True, text=True).stdout.strip()


IMAGES = {
    "cloud-controller-manager": rust("cloud-controller-manager", "cloud-controller-manager"),
    "provider-conformance": rust("provider-conformance", "provider-conformance"),
    "provider-linux": linux,
    "provider-mock": rust("provider-mock", "provider"),
    "provider-fake": go("adapters/go", "./examples/fake"),
    "provider-aws": go("providers/aws", "."),
    "provider-digitalocean": go("providers/digitalocean", "."),
    "provider-example-python": python,
    "provider-example-node": node,
    "provider-example-java": java,
    "curl": curl,
    "agnhost": agnhost,
}
