"""What `cargo metadata` says of this workspace's packages: which are published, and in which order."""

import json
import subprocess


def fail(sentence):
    raise SystemExit(sentence)


def metadata(*options):
    command = ["cargo", "metadata", "--quiet", "--offline", "--no-deps", "--format-version", "1", *options]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        fail(f"cargo metadata fails: {' '.join(found.stderr.split())}")
    return json.loads(found.stdout)


def published(found):
    """The packages that may be published, by name. An empty list of registries is `publish = false`."""
    return {package["name"]: package for package in found["packages"] if package["publish"] != []}


def order(packages):
    """Their names, each after those on which it depends. What tests alone use counts too where it has a version, because a
    registry demands that it exists."""
    needs = {}
    for name, package in packages.items():
        local = [each for each in package["dependencies"] if each.get("path")]
        missing = [each["name"] for each in local if each["name"] not in packages and each["req"] != "*"]
        if missing:
            fail(f"{name} depends on {missing[0]}, which is not published")
        needs[name] = {each["name"] for each in local if each["name"] in packages and each["req"] != "*"}
    done = []
    while needs:
        ready = sorted(name for name in needs if needs[name] <= set(done))
        if not ready:
            fail(f"these packages depend on each other in a circle: {', '.join(sorted(needs))}")
        done += ready
        for name in ready:
            del needs[name]
    return done


if __name__ == "__main__":
    print("\n".join(order(published(metadata()))))
