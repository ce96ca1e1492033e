"""Records the counts of one part of ci/campaign.sh: record.py FILE PART COMMAND SECONDS NAME=COUNT..."""

import json
import os
import subprocess
import sys
from datetime import date


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def machine():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    name = names[0] if names else os.uname().machine
    return f"{os.cpu_count()} cores of {name}, {os.uname().sysname} {os.uname().release.split('-')[0]}"


def count(text):
    # A sum of what several lines of a report count.
    return sum(int(number) for number in text.split("+"))


path, part, command, seconds, *counts = sys.argv[1:]
if not counts:
    sys.exit(f"campaign: {part}: nothing was counted")
try:
    with open(path) as file:
        parts = json.load(file)
except FileNotFoundError:
    parts = {}
# The counts are of a commit only if nothing but them has changed since.
changed = [line for line in output("git", "status", "--porcelain").splitlines() if not line.endswith(("campaign.json", "how-we-test.md"))]
parts[part] = {
    "command": command,
    "commit": output("git", "rev-parse", "--short=10", "HEAD") + (" and changes" if changed else ""),
    "counts": {name: count(number) for name, number in (pair.split("=") for pair in counts)},
    "date": date.today().isoformat(),
    "machine": machine(),
    "seconds": int(seconds),
}
with open(path, "w") as file:
    json.dump(parts, file, indent=1, sort_keys=True)
    file.write("\n")
