"""The provenance of an artifact: an in-toto statement in the form of SLSA. It is not signed here."""

import hashlib

HOME = "https://github.com/outrigger-dev/outrigger"


def statement(subjects, builder, parameters, source, components):
    """Subjects are digests by name; the builder is a command of this repository, started with these parameters."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}} for name, digest in subjects.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{HOME}/{builder}@v1",
                "externalParameters": parameters,
                "internalParameters": {"SOURCE_DATE_EPOCH": source.epoch, "uncommittedChanges": not source.is_clean},
                "resolvedDependencies": [
                    {"uri": f"git+{HOME}", "digest": {"gitCommit": source.revision}},
                    *lock_files(source.repository),
                    *({"uri": part["purl"], "digest": {"sha256": part["sha256"]}} for part in components if part.get("sha256")),
                ],
            },
            "runDetails": {"builder": {"id": f"{HOME}/{builder}"}},
        },
    }


def lock_files(repository):
    for path in ["Cargo.lock", "adapters/go/go.sum", "providers/aws/go.sum", "providers/digitalocean/go.sum",
                 "deploy/images/python.txt", "sdk/typescript/package-lock.json"]:
        digest = hashlib.sha256((repository / path).read_bytes()).hexdigest()
        yield {"uri": f"git+{HOME}#{path}", "digest": {"sha256": digest}}
