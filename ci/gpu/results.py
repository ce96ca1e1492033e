"""The results of a run of `ci/gpu.sh`: what its folder of work holds becomes results.json and results.tar.gz.

    results.py WORK OUT [--peak-tflops 989] [--print | --print-phase NAME]
    results.py WORK --status

WORK holds `events`, a line each with fields between tabs, in the order in which they happened:

    run KEY VALUE                    what the run is
    plan NAME                        a phase of it
    start NAME SECONDS LIMIT         the phase may run so long; less than its limit where the budget ends before
    end NAME STATUS SECONDS
    stop REASON                      the script ends

and for each phase NAME.json, its measurements, and NAME.log. Both results are replaced at once, never rewritten in place,
so whoever reads them finds all that had happened when they were made. results.json has

    run            what the run is; `ended` is why the script ended, null while it runs or if it was killed
    phases         for each planned phase: outcome, reason (unless it passed or measured), seconds, failed tests
    measurements   for each phase that measured, its JSON lines
    targets        each target: met, missed or not measured

Outcomes: passed, measured, failed, not here (what it needs is absent), cut (it did not end in time, or the script was
killed while it ran), not reached. --status prints 1 if a phase failed or was cut at its own limit, otherwise 0.
"""

import argparse
import io
import json
import os
import re
import sys
import tarfile
import time
from pathlib import Path

import targets

ABSENT, TIMED_OUT, KILLED = 77, 124, 137
BAD = ("failed", "cut at its limit")


class Work:
    """The folder of a run, as far as it has come."""

    def __init__(self, path):
        self.path = path
        self.run, self.planned, self.started, self.ended, self.stopped = {}, [], {}, {}, None
        for line in (path / "events").read_text().splitlines():
            kind, *fields = line.split("\t")
            if kind == "run":
                self.run[fields[0]] = fields[1]
            elif kind == "plan":
                self.planned.append(fields[0])
            elif kind == "start":
                self.started[fields[0]] = (int(fields[1]), int(fields[2]))
            elif kind == "end":
                self.ended[fields[0]] = (fields[1], int(fields[2]))
            elif kind == "stop":
                self.stopped = fields[0]

    def log(self, name):
        path = self.path / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def lines(self, name):
        """A phase's measurements. A phase that was cut may have left half a line, which is none."""
        path = self.path / f"{name}.json"
        found = []
        for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
            try:
                found.append(json.loads(line))
            except ValueError:
                print(f"results.py: {name}: no JSON: {line[:80]}", file=sys.stderr)
        return found

    def phase(self, name):
        """What became of a phase."""
        if name not in self.started:
            return dict(name=name, outcome="not reached", reason=self.stopped or "the script was killed")
        given, limit = self.started[name]
        if name not in self.ended:
            return dict(name=name, outcome="cut", reason="the script was killed while this phase ran", limit_s=limit)
        status, seconds = self.ended[name]
        entry = dict(name=name, outcome="failed", seconds=seconds, limit_s=limit)
        if status == "0":
            return entry | dict(outcome="measured" if self.lines(name) else "passed")
        last = ([line for line in self.log(name).splitlines() if line.strip()] or ["it printed nothing"])[-1]
        if status == "cut":
            return entry | dict(outcome="cut", reason=self.stopped)
        if int(status) == ABSENT:
            return entry | dict(outcome="not here", reason=last)
        if int(status) in (TIMED_OUT, KILLED):
            why = f"its limit of {limit} s" if given == limit else "the budget"
            return entry | dict(outcome="cut", reason=f"{why} ended; last line: {last}", at_its_limit=given == limit)
        failed = re.findall(r"^test (\S+) \.\.\. FAILED", self.log(name), re.MULTILINE)
        return entry | dict(reason=last) | (dict(failed_tests=failed) if failed else {})

    def results(self, peak):
        phases = [self.phase(name) for name in self.planned]
        # Half of a measurement, of a phase that did not end, is kept in the archive alone.
        measured = {phase["name"]: self.lines(phase["name"]) for phase in phases if phase["outcome"] == "measured"}
        return dict(run=self.run | dict(saved_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), ended=self.stopped),
                    phases=phases, measurements=measured, targets=targets.entries(measured, peak))


def is_bad(phase):
    return phase["outcome"] == "failed" or phase.get("at_its_limit", False)


def text(phase):
    """A line of the script's report."""
    seconds = f" in {phase['seconds']} s" if "seconds" in phase else ""
    reason = f": {phase['reason']}" if "reason" in phase else ""
    return f"gpu: {phase['name']:<27} {phase['outcome']}{seconds}{reason}"


def replace(path, data):
    """Writes a file that appears at once."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def archive(work, results):
    """All files of the run, and its results, compressed."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
        for path in sorted(work.path.iterdir()):
            if path.is_file():
                tar.add(path, f"results/{path.name}")
        entry = tarfile.TarInfo("results/results.json")
        entry.size, entry.mtime = len(results), int(time.time())
        tar.addfile(entry, io.BytesIO(results))
    return buffer.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path, metavar="WORK")
    parser.add_argument("out", type=Path, metavar="OUT", nargs="?")
    parser.add_argument("--peak-tflops", type=float, default=targets.PEAK_TFLOPS)
    parser.add_argument("--print", action="store_true", help="the phases that were not reached or cut, and the targets")
    parser.add_argument("--print-phase", metavar="NAME", help="what became of this phase")
    parser.add_argument("--status", action="store_true", help="print the status with which the script ends")
    options = parser.parse_args()
    work = Work(options.work)
    results = work.results(options.peak_tflops)
    if options.status:
        print(int(any(is_bad(phase) for phase in results["phases"])))
        return
    data = (json.dumps(results, indent=1) + "\n").encode()
    replace(options.out / "results.tar.gz", archive(work, data))
    replace(options.out / "results.json", data)
    if options.print_phase:
        print(text(work.phase(options.print_phase)))
    if options.print:
        ran = (phase for phase in results["phases"] if phase["name"] not in work.ended or phase["outcome"] == "cut")
        lines = [text(phase) for phase in ran] + [f"gpu: {targets.text(entry)}" for entry in results["targets"]]
        lines += ["gpu: rehearsed: these ratios show only that they are computed"] * (work.run["rehearsed"] == "true")
        print("\n".join(lines + [f"gpu: {options.out / 'results.json'}"]))


if __name__ == "__main__":
    main()
