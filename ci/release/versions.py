"""Fails unless everything that names this workspace's version names the same: `versions.py [VERSION]`, by default that of `fascicle`."""

import sys
import tomllib
from pathlib import Path

from packages import fail, metadata, published


def faults(version):
    """Each place that names another version, and that version."""
    found = metadata()
    for package in found["packages"]:
        path = Path(package["manifest_path"]).relative_to(found["workspace_root"])
        if package["version"] != version:
            yield path, package["version"]
        for dependency in package["dependencies"]:
            if dependency.get("path") and dependency["req"] not in ("*", f"^{version}"):
                yield f"{path}, dependency {dependency['name']}", dependency["req"]
    for path in sorted(Path("bindings").glob("*/Cargo.toml")):
        named = tomllib.loads(path.read_text())["package"]["version"]
        # A binding in the workspace names the workspace's version.
        if isinstance(named, str) and named != version:
            yield path, named
    for package in tomllib.loads(Path("Cargo.lock").read_text())["package"]:
        # What has no source is of this workspace.
        if "source" not in package and package["version"] != version:
            yield f"Cargo.lock, {package['name']}", package["version"]


if __name__ == "__main__":
    version = sys.argv[1] if len(sys.argv) > 1 else published(metadata())["fascicle"]["version"]
    wrong = list(faults(version))
    if wrong:
        place, named = wrong[0]
        more = f", and {len(wrong) - 1} more places differ" if len(wrong) > 1 else ""
        fail(f"{place} names version {named}, not {version}{more}")
