"""CHANGELOG.md, in the form of Keep a Changelog: its faults, a release's notes, and the section of a new release."""

import re

KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
UNRELEASED = "## [Unreleased]"


def faults(text):
    """Lines that are not in form, in the section of what is not released."""
    if not re.search(rf"(?m)^{re.escape(UNRELEASED)}$", text):
        yield f"CHANGELOG.md has no section `{UNRELEASED}`"
        return
    kinds, entries = [], 0
    for line in section(text, "Unreleased").splitlines():
        if line.startswith("### "):
            if kinds and not entries:
                yield f"CHANGELOG.md: `### {kinds[-1]}` has no entry"
            kinds.append(line.removeprefix("### "))
            entries = 0
        elif re.match(r"- \S", line) and kinds:
            entries += 1
        elif line and not (re.match(r"  \S", line) and entries):
            yield f"CHANGELOG.md: neither an entry (`- …`), the rest of one, nor a heading (`### …`): {line}"
    if kinds and not entries:
        yield f"CHANGELOG.md: `### {kinds[-1]}` has no entry"
    if kinds != [kind for kind in KINDS if kind in kinds]:
        yield f"CHANGELOG.md: headings are, once each and in this order, {', '.join(KINDS)}; there are {', '.join(kinds)}"


def notes(text, version, home):
    """The section of a version, with links that work outside the repository; nothing if there is none."""
    entries = section(text, version)
    return entries and re.sub(r"\]\((?!https?:)([^)]+)\)", rf"]({home}/blob/v{version}/\1)", entries)


def cut(text, version, date):
    """The text, in which everything that was not released is the section of a version."""
    return text.replace(f"{UNRELEASED}\n", f"{UNRELEASED}\n\n## [{version}] - {date}\n", 1)


def section(text, name):
    match = re.search(rf"(?ms)^## \[{re.escape(name)}\][^\n]*\n(.*?)(?=^## \[|\Z)", text)
    return match and match[1].strip() + "\n"
