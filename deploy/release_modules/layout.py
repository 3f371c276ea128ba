"""OCI image layouts in tar archives: the images of several architectures as one, and what such an archive has."""

import hashlib
import json

import archives

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
# Documents about an image, by the end of their files' names.
REFERRERS = {"cdx.json": "application/vnd.cyclonedx+json", "intoto.json": "application/vnd.in-toto+json"}


def join(by_arch, epoch):
    """One archive of the images by architecture, the digest of its index, and the digests by architecture.

    Each is given as the path of its archive and documents without their ends. The documents refer to the image (`subject`), so
    that a registry lists them with it; the archive's index names them after the image.
    """
    files, manifests, referrers = {}, [], []
    for arch, stem in sorted(by_arch.items()):
        content = archives.read(stem.with_name(f"{stem.name}.oci.tar"))
        top = json.loads(content.pop("index.json"))["manifests"][0]
        reference = top["annotations"]["org.opencontainers.image.ref.name"]
        manifests.append({"mediaType": top["mediaType"], "digest": top["digest"], "size": top["size"],
                          "platform": {"architecture": arch, "os": "linux"}})
        files |= content
        for end, kind in REFERRERS.items():
            about = refer(files, top, kind, stem.with_name(f"{stem.name}.{end}").read_bytes())
            referrers.append({"mediaType": MANIFEST, "artifactType": kind, **about})
    index = document({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
    digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
    files[blob(digest)] = index
    top = {"mediaType": INDEX, "digest": digest, "size": len(index),
           "annotations": {"org.opencontainers.image.ref.name": reference}}
    files["index.json"] = document({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top, *referrers]})
    packed = archives.pack([(name, 0o644, content) for name, content in files.items()], epoch)
    return packed, digest, {part["platform"]["architecture"]: part["digest"] for part in manifests}


def refer(files, top, kind, content):
    """Adds a manifest whose one layer is a document about an image; returns its digest and size."""
    def add(content):
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        files[blob(digest)] = content
        return {"digest": digest, "size": len(content)}

    return add(document({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": kind,
        "config": {"mediaType": EMPTY, **add(b"{}")},
        "layers": [{"mediaType": kind, **add(content)}],
        "subject": {key: top[key] for key in ("mediaType", "digest", "size")},
    }))


def referrers(path):
    """The documents of a joined archive, by the digest of the image that they are about and their kind."""
    files = archives.read(path)
    documents = {}
    for part in json.loads(files["index.json"])["manifests"][1:]:
        manifest = json.loads(files[blob(part["digest"])])
        documents[manifest["subject"]["digest"], manifest["artifactType"]] = files[blob(manifest["layers"][0]["digest"])]
    return documents


def digests(path):
    """The digest of the index of a joined archive, the digests by architecture, and the blobs that are missing or damaged."""
    files = archives.read(path)
    damaged = [name for name, content in files.items()
               if name.startswith("blobs/") and hashlib.sha256(content).hexdigest() != name.rsplit("/", 1)[1]]
    top, *about = (part["digest"] for part in json.loads(files["index.json"])["manifests"])
    named = [top]
    parts = json.loads(files.get(blob(top), b"{}")).get("manifests", [])
    by_arch = {part["platform"]["architecture"]: part["digest"] for part in parts}
    for part in [*parts, *({"digest": digest} for digest in about)]:
        manifest = json.loads(files.get(blob(part["digest"]), b"{}"))
        named += [part["digest"], *(inner["digest"] for inner in [manifest.get("config"), *manifest.get("layers", [])] if inner)]
    return top, by_arch, damaged + [digest for digest in named if blob(digest) not in files]


def blob(digest):
    return "blobs/" + digest.replace(":", "/")


def document(content):
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
