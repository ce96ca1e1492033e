"""Compares what `ci/gpu.sh` measured of Fascicle and of PyTorch with the targets.

    gpu_ratios.py FOLDER [--peak-tflops 989]

Reads the JSON lines in FOLDER: gemm, kernels, step-1.3b, step-1.3b-timed-matmuls and step-124m of ours; torch-gemm,
torch-attention, torch-step-1.3b-eager, -compiled and the same of 124m of PyTorch. Prints a line per target with the
measurement, and writes FOLDER/targets.json, one JSON object per line:

    target    the comparison
    needed    "at most" or "at least", and the bound
    measured  the ratio; null if a side was not measured
    outcome   "met", "missed" or "not measured"
    where     the name of the worst of several ratios, otherwise absent

A missed target is not a failure of this program.
"""

import argparse
import json
from pathlib import Path

PEAK_TFLOPS = 989
STEPS = ("step-1.3b", "step-1.3b-timed-matmuls", "step-124m")


class Folder:
    """The files of one run."""

    def __init__(self, path):
        self.path = path

    def lines(self, name):
        """The content of a file; empty if there is none."""
        path = self.path / f"{name}.json"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def by(self, name, key, value):
        """Pairs of a line's name and its figure, for lines that have it."""
        return {line[key]: line[value] for line in self.lines(name) if value in line}


def target(what, ratios, at_most=None, at_least=None):
    """An entry for the worst of several named ratios."""
    bound, word, worst = (at_least, "at least", min) if at_most is None else (at_most, "at most", max)
    entry = dict(target=what, needed=f"{word} {bound}")
    if not ratios:
        return entry | dict(measured=None, outcome="not measured")
    where = worst(ratios, key=ratios.get)
    met = ratios[where] <= bound if at_least is None else ratios[where] >= bound
    entry |= dict(measured=round(ratios[where], 4), outcome="met" if met else "missed")
    return entry | dict(where=where) if len(ratios) > 1 else entry


def quotients(above, below):
    """`above / below` for the names that both have."""
    return {name: above[name] / below[name] for name in above if below.get(name)}


def steps(folder, name):
    """Times of our step over PyTorch's."""
    model = name.removesuffix("-timed-matmuls")
    for mode, bound in (("compiled", 1.0), ("eager", 0.85)):
        ours, theirs = folder.lines(name), folder.lines(f"torch-{model}-{mode}")
        ratios = {name: ours[0]["step_s"] / theirs[0]["step_s"]} if ours and theirs else {}
        yield target(f"{name}: time, of {mode} PyTorch's", ratios, at_most=bound)


def speeds(folder, name, peak):
    """Flop rate of a step relative to the device's peak."""
    ratios = {line["mode"]: line["gflops"] / 1e3 / peak for line in folder.lines(name)}
    return target(f"{name}: speed, of {peak:g} Tflop/s", ratios, at_least=0.5)


def kernels(folder):
    """Speeds of single operations, relative to PyTorch's or to a copy."""
    matmuls = quotients(folder.by("torch-gemm", "what", "us"), folder.by("gemm", "what", "us"))
    yield target("matmuls: speed, of PyTorch's", matmuls, at_least=0.97)
    elementwise = {line["kernel"]: line["share_of_copy"] for line in folder.lines("kernels")
                   if line["family"] == "elementwise"}
    yield target("elementwise kernels: bandwidth, of a copy's", elementwise, at_least=0.85)
    ours, theirs = (folder.by(name, "kernel", "microseconds") for name in ("kernels", "torch-attention"))
    yield target("attention: speed, of PyTorch's", quotients(theirs, ours), at_least=0.6)


def text(entry):
    if entry["measured"] is None:
        return f"{entry['target']}: not measured"
    where = f" ({entry['where']})" if "where" in entry else ""
    return f"{entry['target']}: {entry['measured']:.3f}{where}, needs {entry['needed']}: {entry['outcome']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--peak-tflops", type=float, default=PEAK_TFLOPS,
                        help=f"of the device in bf16; by default {PEAK_TFLOPS}, an H100's or H200's")
    options = parser.parse_args()
    folder = Folder(options.folder)
    entries = [entry for name in STEPS for entry in steps(folder, name)]
    entries += [speeds(folder, name, options.peak_tflops) for name in STEPS[:2]]
    entries += kernels(folder)
    for entry in entries:
        print(text(entry))
    (options.folder / "targets.json").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


if __name__ == "__main__":
    main()
