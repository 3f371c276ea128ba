"""OCI image layouts in tar archives: the images of several architectures as one, and what such an archive has."""

import hashlib
import json

import archives

INDEX = "application/vnd.oci.image.index.v1+json"


def join(by_arch, epoch):
    """One archive of the archives by architecture, the digest of its index, and the digests by architecture."""
    files, manifests = {}, []
    for arch, path in sorted(by_arch.items()):
        content = archives.read(path)
        top = json.loads(content.pop("index.json"))["manifests"][0]
        reference = top["annotations"]["org.opencontainers.image.ref.name"]
        manifests.append({"mediaType": top["mediaType"], "digest": top["digest"], "size": top["size"],
                          "platform": {"architecture": arch, "os": "linux"}})
        files |= content
    index = document({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
    digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
    files[blob(digest)] = index
    top = {"mediaType": INDEX, "digest": digest, "size": len(index),
           "annotations": {"org.opencontainers.image.ref.name": reference}}
    files["index.json"] = document({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]})
    packed = archives.pack([(name, 0o644, content) for name, content in files.items()], epoch)
    return packed, digest, {part["platform"]["architecture"]: part["digest"] for part in manifests}


def digests(path):
    """The digest of the index of a joined archive, the digests by architecture, and the blobs that are missing or damaged."""
    files = archives.read(path)
    damaged = [name for name, content in files.items()
               if name.startswith("blobs/") and hashlib.sha256(content).hexdigest() != name.rsplit("/", 1)[1]]
    top = json.loads(files["index.json"])["manifests"][0]["digest"]
    wanted, by_arch = [top], {}
    for part in json.loads(files.get(blob(top), b"{}")).get("manifests", []):
        by_arch[part["platform"]["architecture"]] = part["digest"]
        manifest = json.loads(files.get(blob(part["digest"]), b"{}"))
        wanted += [part["digest"], *(inner["digest"] for inner in [manifest.get("config"), *manifest.get("layers", [])] if inner)]
    return top, by_arch, damaged + [digest for digest in wanted if blob(digest) not in files]


def blob(digest):
    return "blobs/" + digest.replace(":", "/")


def document(content):
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
