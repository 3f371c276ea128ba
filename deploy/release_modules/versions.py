"""The version: the one list of places where it stands."""

import re

# A version of SemVer, without build metadata, which no tag of an image can have.
NUMBER = r"\d+\.\d+\.\d+(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"

# Files, and the text before the version. In one with an example it is that of the images that the example uses.
PLACES = {
    "Cargo.toml": r'\[workspace\.package\]\nversion = "|\noutrigger-[a-z-]+ = \{ path = "[^"]+", version = "',
    "Cargo.lock": r'\nname = "outrigger-[a-z-]+"\nversion = "',
    "adapters/go/upstream/go.mod": r"\n\toutrigger\.dev/adapters/go v",
    "conformance/action/action.yml": r"\n    default: ",
    "conformance/packages/maven/README.md": r"<version>",
    "conformance/packages/maven/pom.xml": r"<artifactId>conformance</artifactId>\n  <version>",
    "conformance/packages/npm/package.json": r'"name": "@outrigger/conformance",\n\s+"version": "',
    "conformance/packages/npm/package-lock.json": r'"name": "@outrigger/conformance",\n\s+"version": "',
    "conformance/packages/python/pyproject.toml": r'name = "outrigger-conformance"\nversion = "',
    "deploy/chart/outrigger/Chart.yaml": r"\n(?:version|appVersion): ",
    "deploy/kustomize/base/*.yaml": r'app\.kubernetes\.io/version: "',
    "deploy/kustomize/overlays/*/*.yaml": r'app\.kubernetes\.io/version: "|/cloud-controller-manager:',
    "docs/conformance.md": r'/conformance/action@v|OUTRIGGER_VERSION: "',
    "docs/deploy.md": r"/provider-digitalocean, (?:tag|newTag): ",
    "docs/images.md": r"/provider-mock:",
    "examples/java/pom.xml": r"<artifactId>(?:example-)?provider</artifactId>\n\s+<version>",
    "examples/node/package.json": r'"name": "outrigger-example-provider",\n\s+"version": "',
    "examples/node/package-lock.json": r'"name": "outrigger-example-provider",\n\s+"version": "',
    "examples/node/src/main.ts": r'version: "',
    "examples/python/pyproject.toml": r'name = "outrigger-example-provider"\nversion = "',
    "sdk/java/pom.xml": r"<artifactId>provider</artifactId>\n\s+<version>",
    "sdk/python/pyproject.toml": r'name = "outrigger-provider"\nversion = "',
    "provider-mock/README.md": r"\nprovider +mock ",
    "sdk/typescript/package.json": r'"name": "@outrigger/provider",\n\s+"version": "',
    "sdk/typescript/package-lock.json": r'"name": "@outrigger/provider",\n\s+"version": "',
    "providers/digitalocean/settings.go": r'number = "',
}
FIRST = "Cargo.toml"


def current(repository):
    return next(number for file, _, number in places(repository) if file == FIRST)


def faults(repository, version):
    """Places that have another version, and files that have none."""
    files = set()
    for file, line, number in places(repository):
        files.add(file)
        if number != version:
            yield f"{file}:{line} has the version {number}, not {version}"
    for pattern in PLACES:
        if not any(name in files for name in names(repository, pattern)):
            yield f"{pattern}: no version stands where deploy/release_modules/versions.py looks for it"


def change(repository, version):
    """Writes the version at all places, and returns the files that changed."""
    changed = []
    for pattern, before in PLACES.items():
        for name in names(repository, pattern):
            text = (repository / name).read_text()
            edited = re.sub(f"({before})({NUMBER})", lambda match: match[1] + version, text)
            if edited != text:
                (repository / name).write_text(edited)
                changed.append(name)
    return changed


def places(repository):
    for pattern, before in PLACES.items():
        for name in names(repository, pattern):
            text = (repository / name).read_text()
            for match in re.finditer(f"({before})({NUMBER})", text):
                yield name, text.count("\n", 0, match.start(2)) + 1, match[2]


def names(repository, pattern):
    return sorted(str(path.relative_to(repository)) for path in repository.glob(pattern))
