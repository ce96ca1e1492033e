"""Each published package's page on docs.rs and crates.io says what it is, for whom, and where to begin. So does each binding's. The
manual lists the features of the crate `fascicle`."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "release"))
from packages import metadata, published  # noqa: E402

BINDINGS = sorted(Path("bindings").glob("*/Cargo.toml"))

# Those that a program may name by themselves: their first page has an example, which is a doc test.
DIRECT = {"", "-bootstrap", "-checkpoint", "-collective", "-families", "-grid", "-job", "-nn", "-parallel", "-plan", "-tensor",
          "-testing", "-train"}
# What crates.io accepts.
MOST_KEYWORDS, MOST_LETTERS = 5, 20


def front(source):
    """The lines of documentation at the top of a library."""
    lines = []
    for line in Path(source).read_text().splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line[4:])
    return "\n".join(lines)


def faults(package):
    repository = package["repository"]
    for key in ("description", "license", "repository", "keywords", "categories", "readme", "rust_version"):
        if not package[key]:
            yield f"its manifest has no {key}"
            return
    if package["description"].endswith(".") or len(package["description"]) < 30:
        yield "its description is no phrase of 30 letters or more"
    keywords = package["keywords"]
    if len(keywords) > MOST_KEYWORDS or any(not re.fullmatch(rf"[a-z][a-z0-9-]{{,{MOST_LETTERS - 1}}}", word) for word in keywords):
        yield f"crates.io refuses its keywords: {', '.join(keywords)}"
    folder = Path(package["manifest_path"]).parent
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        # A link that was copied as a file holds a path, and no licence.
        if not (folder / name).exists() or (folder / name).read_text() != Path(name).read_text():
            yield f"its {name} is not the repository's"
    readme = folder / package["readme"]
    page = readme.read_text() if readme.exists() else ""
    if package["name"] not in page.lower() or (package["name"] != "fascicle" and repository not in page):
        yield "its README.md does not name it and the repository"
    library = next(target for target in package["targets"] if target["kind"] in (["lib"], ["cdylib"]))
    page = front(library["src_path"])
    if not re.match(r"\w.{20,}", page):
        yield "its library does not open with a sentence"
    if f"{repository}/blob/main/" not in page:
        yield "its first page does not lead to the manual"
    if "`fascicle`" not in page:
        yield "its first page does not name the crate `fascicle`"
    for name in re.findall(rf"{re.escape(repository)}/blob/main/([^\s)#]+)", page):
        if not Path(name).exists():
            yield f"its first page leads to {name}, which does not exist"
    tested = [fence for fence in re.findall(r"^```(.*)$", page, re.MULTILINE)[::2] if fence in ("", "no_run")]
    if package["name"].removeprefix("fascicle") in DIRECT and not tested:
        yield "its first page has no example that is a doc test"


def unlisted(package):
    """The features of a package that the manual's table lacks, and those of the table that it lacks."""
    page = Path("docs/stability.md")
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", page.read_text(), re.MULTILINE))
    for name in sorted(listed ^ (set(package["features"]) - {"default"})):
        yield f"{page} and the features of {package['name']} differ by {name}"


if __name__ == "__main__":
    packages = published(metadata())
    # Those of the workspace come with all its packages.
    bindings = [package for path in BINDINGS for package in metadata("--manifest-path", path)["packages"]
                if Path(package["manifest_path"]) == path.resolve()]
    missing = {f"fascicle{suffix}" for suffix in DIRECT} - set(packages)
    found = [f"{package['name']}: {fault}" for package in [*packages.values(), *bindings] for fault in faults(package)]
    found += [f"{name}: ci/pages.py expects an example of it, and no such package is published" for name in sorted(missing)]
    found += unlisted(packages["fascicle"])
    if found:
        sys.exit("\n".join(found))
    print(f"{len(packages)} packages and {len(bindings)} bindings say what they are, for whom, and where to begin")
