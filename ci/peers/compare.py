"""Runs Fascicle and its peers alternately on this machine and reports the ratios of their times.

    compare.py [CASE or GROUP ...] [--rounds 3] [--steps 9] [--head serial] [--ours target/release/fascicle] [--out FILE]

A round of a case is one run of ours, then one of the peer's, so that a machine that slows down slows both. The figure of
a side is the median over rounds (of each run's own median), and its spread is the smallest and largest round. `ratio` is
ours / theirs, below 1 where we are faster; its spread is that of the ratios within single rounds.

The table goes to stderr, JSON to stdout or FILE:
    machine   cpu, cores, load (one-minute average at the start)
    rounds, steps
    cases     list of: case, group, peer, unit ("step_s" or "us"), state ("done", "skipped", "failed"), why (unless done);
              if done, also ours and theirs, each with command, median, min, max, runs (one figure per round), loss,
              peak_mib; ratio, ratio_min, ratio_max; loss_difference (ours - theirs, null where the functions differ)

Exit status: 0; 1 if a case failed or two losses that should agree do not; 2 for wrong use. A skipped case is not a failure.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import cases

HERE = Path(__file__).resolve().parent
ABSENT = 3
TIMEOUT_S = 1800
# f32 sums in another order move the loss by about 1e-5 in nine steps; a wrong gradient moves it by more than this.
LOSS_TOLERANCE = 1e-3


class Absent(Exception):
    """The peer cannot run on this machine."""


class Failed(Exception):
    """A program failed, printed unexpected output, or computed another result."""


def run(command):
    """The JSON lines that a program prints."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"{shlex.join(command)}: no end after {TIMEOUT_S} s") from None
    except OSError as error:
        raise Failed(f"{shlex.join(command)}: {error.strerror}") from None
    last = (done.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
    if done.returncode == ABSENT:
        raise Absent(last)
    if done.returncode:
        raise Failed(f"{shlex.join(command)}: status {done.returncode}: {last}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def figure(case, command):
    """Runs a program once and selects its line: the only one of a step, or the one with our size among collectives."""
    lines = run(command)
    if case.unit == "us":
        lines = [line for line in lines if (line["operation"], line["ranks"], line["bytes"]) ==
                 ("all_reduce", 2, cases.ALL_REDUCE_BYTES)]
    if len(lines) != 1 or not lines[0].get(case.unit, 0) > 0:
        raise Failed(f"{shlex.join(command)}: {len(lines)} lines, one with `{case.unit}` needed")
    return lines[0]


def commands(case, options, weights):
    """The command lines of both sides."""
    ours, theirs = [str(options.ours), *case.ours], [sys.executable, str(HERE / case.program), *case.theirs]
    if case.unit == "step_s":
        steps = ["--steps", str(options.steps)]
        ours += [*steps, "--weights", str(weights)]
        theirs += [*steps, "--head", options.head]
    return ours, theirs


def side(case, command, lines):
    runs = [line[case.unit] for line in lines]
    return dict(command=shlex.join(command), median=statistics.median(runs), min=min(runs), max=max(runs), runs=runs,
                loss=lines[-1].get("loss"), peak_mib=max((line.get("peak_mib") or 0 for line in lines)) or None)


def loss_difference(case, our_line, their_line):
    """Ours - theirs after the last step; `None` for collectives, and for a peer that trains another function."""
    if case.unit != "step_s" or not their_line.get("same_function", True):
        return None
    difference = our_line["loss"] - their_line["loss"]
    if not abs(difference) <= LOSS_TOLERANCE:
        raise Failed(f"losses differ: ours {our_line['loss']}, theirs {their_line['loss']}, allowed {LOSS_TOLERANCE}")
    return difference


def compare(case, options, weights):
    """All rounds of one case, as the entry of the report."""
    command = commands(case, options, weights)
    rounds = []
    for index in range(options.rounds):
        rounds.append(tuple(figure(case, line) for line in command))
        print(f"  {case.name}: round {index + 1}/{options.rounds}: ours {rounds[-1][0][case.unit]}, "
              f"theirs {rounds[-1][1][case.unit]} {case.unit}", file=sys.stderr)
    ours, theirs = (side(case, line, [pair[which] for pair in rounds]) for which, line in enumerate(command))
    ratios = [our / their for our, their in zip(ours["runs"], theirs["runs"])]
    return dict(ours=ours, theirs=theirs, ratio=round(ours["median"] / theirs["median"], 4),
                ratio_min=round(min(ratios), 4), ratio_max=round(max(ratios), 4),
                loss_difference=loss_difference(case, *rounds[-1]))


def entry(case, options, weights):
    """One entry of the report, whatever happened."""
    head = dict(case=case.name, group=case.group, peer=case.peer, unit=case.unit)
    try:
        return head | dict(state="done") | compare(case, options, weights)
    except Absent as why:
        return head | dict(state="skipped", why=str(why))
    except (Failed, KeyError, json.JSONDecodeError) as why:
        return head | dict(state="failed", why=str(why) if isinstance(why, Failed) else f"unexpected output: {why!r}")


def export(folder):
    """Writes the weights and the batch that all sides start from."""
    try:
        run([sys.executable, str(HERE / "torch_gpt.py"), "--export", folder])
    except Failed as why:
        sys.exit(f"compare.py: no weights to start from: {why}")


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return dict(cpu=names[0] if names else "unknown", cores=len(os.sched_getaffinity(0)), load=round(os.getloadavg()[0], 2))


def row(found):
    """One row of the table: texts in the order of its columns."""
    if found["state"] != "done":
        return [found["case"], found["peer"], f"{found['state']}: {found['why']}"]
    scale, unit = (1e3, "ms") if found["unit"] == "step_s" else (1, "us")
    spread = "{median:.1f} [{min:.1f} .. {max:.1f}] {unit}"
    times = [spread.format(unit=unit, **{key: found[who][key] * scale for key in ("median", "min", "max")})
             for who in ("ours", "theirs")]
    ratio = f"{found['ratio']:.3f} [{found['ratio_min']:.3f} .. {found['ratio_max']:.3f}]"
    memory = "/".join(f"{found[who]['peak_mib']:.0f}" if found[who]["peak_mib"] else "-" for who in ("ours", "theirs"))
    loss = "-" if found["loss_difference"] is None else f"{found['loss_difference']:+.1e}"
    return [found["case"], found["peer"], *times, ratio, memory, loss]


def print_table(entries):
    rows = [["case", "peer", "ours", "theirs", "ours/theirs", "peak MiB", "loss diff"], *map(row, entries)]
    whole = [cells for cells in rows if len(cells) == len(rows[0])]
    widths = [max(len(cells[column]) for cells in whole) for column in range(len(rows[0]))]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip(), file=sys.stderr)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("selection", nargs="*", metavar="CASE", help="a case or a group; all when none is named")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=9, help="steps of a run, the first two of them warm-up")
    parser.add_argument("--head", choices=("serial", "parallel"), default="serial", help="of DTensor and AxoNN")
    parser.add_argument("--ours", type=Path, default=HERE.parents[1] / "target/release/fascicle", help="our program")
    parser.add_argument("--out", type=Path, help="file for the JSON, in place of stdout")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    options = parser.parse_args()
    try:
        options.selection = cases.select(options.selection)
    except KeyError as unknown:
        parser.error(f"no case or group {unknown}; --list shows them")
    if options.rounds < 1 or options.steps < 1:
        parser.error(f"--rounds {options.rounds}, --steps {options.steps}: at least 1 of each")
    if not options.list and not os.access(options.ours, os.X_OK):
        parser.error(f"{options.ours} is not there: cargo build --release, or say --ours PATH")
    return options


def main():
    options = parse()
    if options.list:
        for case in options.selection:
            print(f"{case.name:16} {case.group:12} {case.peer}")
        return
    report = dict(machine=machine(), rounds=options.rounds, steps=options.steps)
    if report["machine"]["load"] > 0.5:
        print(f"warning: load average {report['machine']['load']}: other work disturbs these times", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        if any(case.unit == "step_s" for case in options.selection):
            export(folder)
        report["cases"] = [entry(case, options, Path(folder) / "gpt.safetensors") for case in options.selection]
    print_table(report["cases"])
    text = json.dumps(report, indent=1) + "\n"
    options.out.write_text(text) if options.out else sys.stdout.write(text)
    sys.exit(any(found["state"] == "failed" for found in report["cases"]))


if __name__ == "__main__":
    main()
