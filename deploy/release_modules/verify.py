"""Verifies that the files of a release belong together: checksums, provenance, bills of materials, digests of images."""

import json
import re

import archives
import artifacts
import layout

SIDECARS = (".intoto.json", ".cdx.json")


def faults(directory):
    """A sentence for each fault; none if the release is whole. Signatures of SHA256SUMS are not looked at."""
    names = {path.name for path in directory.iterdir() if not path.name.startswith(artifacts.SUMS)}
    if not (directory / artifacts.SUMS).is_file():
        yield f"{directory} has no {artifacts.SUMS}"
        return
    yield from checksums(directory, names)
    made = sorted(name for name in names if name.endswith((".tar.gz", ".tgz", ".oci.tar", ".whl", ".jar")))
    for name in made:
        try:
            yield from artifact(directory, name)
        except (OSError, ValueError, KeyError, EOFError, archives.tarfile.TarError) as damaged:
            yield f"{name} or a file beside it cannot be read: {damaged!r}"
    for name in sorted(names):
        if name.endswith(SIDECARS) and not any(name.startswith(f"{one}.") for one in made):
            yield f"{name} is about an artifact that is not there"
    yield from one_commit(directory, names)


def checksums(directory, names):
    listed = {}
    for line in (directory / artifacts.SUMS).read_text().splitlines():
        digest, name = line.split("  ", 1)
        listed[name] = digest
    for name in sorted(names - listed.keys()):
        yield f"{name} is not in {artifacts.SUMS}"
    for name in sorted(listed.keys() - names):
        yield f"{name} is in {artifacts.SUMS}, and is not there"
    for name in sorted(names & listed.keys()):
        if artifacts.sha256((directory / name).read_bytes()) != listed[name]:
            yield f"{name} has another checksum than in {artifacts.SUMS}"


def artifact(directory, name):
    digest = artifacts.sha256((directory / name).read_bytes())
    provenance = f"{name}.intoto.json"
    if subjects(directory / provenance).get(name) != digest:
        yield f"{provenance} does not name the digest of {name}"
    if name.endswith(".oci.tar"):
        yield from image(directory, name)
    elif re.match(r"outrigger-(kustomize-)?\d", name):
        yield from manifests(directory, name)
    elif bill_digest(directory / f"{name}.cdx.json") != digest:
        yield f"{name}.cdx.json does not name the digest of {name}"


def image(directory, name):
    index, by_arch, damaged = layout.digests(directory / name)
    for blob in damaged:
        yield f"{name}: {blob} is missing or damaged"
    if index.removeprefix("sha256:") not in subjects(directory / f"{name}.intoto.json").values():
        yield f"{name}.intoto.json does not name the image's digest {index}"
    if index not in pinned(directory).values():
        yield f"{artifacts.IMAGES} does not have the digest {index} of {name}"
    about = layout.referrers(directory / name)
    for arch, digest in by_arch.items():
        for end, kind in layout.REFERRERS.items():
            if about.get((digest, kind)) != (directory / f"{name}.{arch}.{end}").read_bytes():
                yield f"{name} does not refer to {name}.{arch}.{end}"
        bare = digest.removeprefix("sha256:")
        if bare not in subjects(directory / f"{name}.{arch}.intoto.json").values():
            yield f"{name}.{arch}.intoto.json does not name the image's digest {digest}"
        if bill_digest(directory / f"{name}.{arch}.cdx.json") != bare:
            yield f"{name}.{arch}.cdx.json does not name the image's digest {digest}"


def manifests(directory, name):
    """Each digest of an image in the chart and the overlays is that of the released controller."""
    released = next((digest for reference, digest in pinned(directory).items() if f"/{artifacts.CONTROLLER}:" in reference), None)
    texts = archives.read(directory / name).values()
    images = {digest for text in texts for digest in re.findall(r"sha256:[0-9a-f]{64}", text.decode())}
    if images != {released}:
        yield f"{name} has the images {sorted(images)}, not the controller's {released} alone"


def pinned(directory):
    lines = (directory / artifacts.IMAGES).read_text().splitlines()
    return {reference: digest for digest, reference in (line.split("  ", 1) for line in lines)}


def one_commit(directory, names):
    commits = {}
    for name in sorted(name for name in names if name.endswith(".intoto.json")):
        try:
            definition = json.loads((directory / name).read_text())["predicate"]["buildDefinition"]
            if definition["internalParameters"]["uncommittedChanges"]:
                yield f"{name}: built with changes that are not committed"
            commits[definition["resolvedDependencies"][0]["digest"]["gitCommit"]] = name
        except (ValueError, KeyError) as damaged:
            yield f"{name} is no provenance: {damaged!r}"
    if len(commits) > 1:
        yield f"the release is of several commits: {', '.join(f'{commit} in {name}' for commit, name in sorted(commits.items()))}"


def subjects(path):
    return {one["name"]: one["digest"]["sha256"] for one in json.loads(path.read_text())["subject"]}


def bill_digest(path):
    return json.loads(path.read_text())["metadata"]["component"]["hashes"][0]["content"]
