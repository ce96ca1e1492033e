"""Checks that what a run of `ci/gpu.sh` has left is complete and agrees with itself, however the run ended.

    consistent.py OUT [NAME=OUTCOME ...]      and that these phases, or `ended`, had these outcomes
"""

import json
import sys
import tarfile
from pathlib import Path

OUTCOMES = {"passed", "measured", "failed", "not here", "cut", "not reached"}
KEPT = {"results.json", "results.tar.gz", ".results.json.new", ".results.tar.gz.new"}


def check(out, expected):
    assert {path.name for path in out.iterdir()} <= KEPT, f"{out}: more than the results"
    with tarfile.open(out / "results.tar.gz") as tar:
        files = {Path(entry.name).name: tar.extractfile(entry).read() for entry in tar}
    results = json.loads(files["results.json"])
    # Replaced just after the archive, unless the run was killed between the two.
    beside = json.loads((out / "results.json").read_text())
    assert beside["run"]["started_at"] == results["run"]["started_at"], "results of two runs"

    phases = {phase["name"]: phase for phase in results["phases"]}
    planned = [line.split("\t")[1] for line in files["events"].decode().splitlines() if line.startswith("plan\t")]
    assert list(phases) == planned, f"planned {planned}, found {list(phases)}"
    assert "doctor" in phases and results["targets"], "no phases or no targets"
    for name, phase in phases.items():
        outcome = phase["outcome"]
        assert outcome in OUTCOMES, f"{name}: {outcome}"
        assert (outcome == "measured") == (name in results["measurements"]), f"{name}: {outcome}, measurements"
        assert ("reason" in phase) == (outcome not in ("passed", "measured")), f"{name}: {outcome}, reason"
        assert (f"{name}.log" in files) or outcome in ("not reached", "cut"), f"{name}: {outcome}, and no log"
    reached = [phase["outcome"] != "not reached" for phase in phases.values()]
    assert reached == sorted(reached, reverse=True), "a phase was not reached before one that was"
    assert [phase["outcome"] for phase in phases.values()].count("cut") <= 1 or results["run"]["ended"] == "finished"

    found = {name: phase["outcome"] for name, phase in phases.items()} | dict(ended=results["run"]["ended"])
    for what in expected:
        name, _, outcome = what.partition("=")
        assert str(found.get(name)) == outcome, f"{name}: found {found.get(name)}, needs {outcome}"


if __name__ == "__main__":
    try:
        check(Path(sys.argv[1]), sys.argv[2:])
    except (AssertionError, OSError, ValueError, KeyError) as problem:
        sys.exit(f"{sys.argv[1]}: {problem}")
