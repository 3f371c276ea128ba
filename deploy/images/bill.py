"""The bill of materials of an image or a program, as CycloneDX, from what the tools of each language say is in it."""

import datetime
import json
import subprocess
import tempfile
import urllib.parse


def document(kind, name, digest, source, components):
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(int(source.epoch), datetime.UTC).isoformat(),
            "component": {
                "type": kind, "name": name, "version": source.version,
                "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
            },
        },
        "components": [entry(part) for part in sorted(components, key=lambda part: part["purl"])],
    }


def entry(component):
    entry = {"type": "library", "bom-ref": component["purl"], **{key: component[key] for key in ("name", "version", "purl")}}
    if component.get("licence"):
        entry["licenses"] = [{"expression": component["licence"]}]
    if component.get("sha256"):
        entry["hashes"] = [{"alg": "SHA-256", "content": component["sha256"]}]
    return entry


def rust(package, target, repository):
    """Crates that are linked into a package; not those that only its build runs."""
    tree = output("cargo", "tree", "--locked", "--package", package, "--edges", "normal,no-proc-macro", "--target", target,
                  "--prefix", "none", "--format", "{p}|{l}", cwd=repository)
    for line in sorted(set(tree.splitlines())):
        crate, licence = line.removesuffix(" (*)").split("|")
        name, version = crate.split(" ")[:2]
        yield component("cargo", name, version.removeprefix("v"), licence.replace("/", " OR ").removesuffix(" (*)"))


def go(binary):
    """Modules that Go says are in a binary; not those of this repository, which the image's revision names."""
    for line in output("go", "version", "-m", binary).splitlines():
        words = line.split("\t")
        if words[1:2] in (["dep"], ["=>"]) and not words[2].startswith(("outrigger.dev/", ".")):
            yield component("golang", words[2], words[3])


def python(directory):
    """Distributions that are unpacked in a directory."""
    for metadata in sorted(directory.glob("*.dist-info/METADATA")):
        head = metadata.read_text().split("\n\n", 1)[0]
        fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line and not line.startswith(" "))
        yield component("pypi", fields["Name"].lower(), fields["Version"], fields.get("License-Expression"))


def node(directory):
    """Packages that npm installed below a directory."""
    for manifest in sorted(directory.rglob("node_modules/**/package.json")):
        package = json.loads(manifest.read_text())
        if manifest.parent.parent.name in ("node_modules",) or manifest.parent.parent.name.startswith("@"):
            yield component("npm", package["name"], package["version"], package.get("license"))


def java(project):
    """Libraries that Maven says a program runs with; not the SDK, which the image's revision names."""
    with tempfile.NamedTemporaryFile("r") as listed:
        output("mvn", "--batch-mode", "--quiet", "dependency:list", "-DincludeScope=runtime", f"-DoutputFile={listed.name}", cwd=project)
        for line in listed:
            # "group:name:jar:version:scope", and the module's name behind it.
            words = (line.split() or [""])[0].split(":")
            if "jar" in words and words[0] != "dev.outrigger":
                yield component("maven", f"{words[0]}/{words[1]}", words[-2])


def component(kind, name, version, licence=None):
    quoted = urllib.parse.quote(name, safe="/")
    return {"name": name, "version": version, "purl": f"pkg:{kind}/{quoted}@{version}", "licence": licence}


def output(*command, cwd=None):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout
