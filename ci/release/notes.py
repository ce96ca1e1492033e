"""Prints the notes of a version, cut from CHANGELOG.md: `notes.py VERSION`. Links to files become links to the version's tag."""

import re
import sys
from datetime import date as Date

from packages import fail, metadata, published


def section(text, version):
    """The lines below the heading `## VERSION - YYYY-MM-DD`, up to the next version."""
    headings = [line for line in text.splitlines() if re.match(rf"## {re.escape(version)}\b(?![-+.])", line)]
    if not headings:
        fail(f"CHANGELOG.md has no section `## {version} - YYYY-MM-DD`: rename `## Unreleased`, and begin a new one above it")
    if len(headings) > 1:
        fail(f"CHANGELOG.md has {len(headings)} sections for {version}")
    date = headings[0].removeprefix(f"## {version} - ")
    try:
        Date.fromisoformat(date)
    except ValueError:
        fail(f"CHANGELOG.md: `{headings[0]}` is not `## {version} - YYYY-MM-DD`")
    below = text.split(headings[0] + "\n", 1)[1]
    body = re.split(r"^## ", below, maxsplit=1, flags=re.MULTILINE)[0].strip()
    if not body:
        fail(f"CHANGELOG.md: the section of {version} is empty")
    return date, body


def absolute(body, repository, version):
    """Links to files of the repository lead to those of the version's tag."""
    return re.sub(r"\]\((?!\w+:|#)([^)\s]+)\)", rf"]({repository}/blob/v{version}/\1)", body)


if __name__ == "__main__":
    version = sys.argv[1]
    date, body = section(open("CHANGELOG.md").read(), version)
    repository = published(metadata())["fascicle"]["repository"]
    print(f"# Fascicle {version}\n\nReleased on {date}.\n\n{absolute(body, repository, version)}")
