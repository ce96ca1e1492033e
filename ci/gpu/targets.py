"""Compares what `ci/gpu.sh` measured of Fascicle and of PyTorch with the targets.

The measurements are the JSON lines of each phase: gemm, kernels, step-1.3b, step-1.3b-timed-matmuls and step-124m of ours;
torch-gemm, torch-attention, torch-step-1.3b-eager, -compiled and the same of 124m of PyTorch. An entry has

    target    the comparison
    needed    "at most" or "at least", and the bound
    measured  the ratio; null if a side was not measured
    outcome   "met", "missed" or "not measured"
    where     the name of the worst of several ratios, otherwise absent
"""

PEAK_TFLOPS = 989
STEPS = ("step-1.3b", "step-1.3b-timed-matmuls", "step-124m")


def by(lines, key, value):
    """Pairs of a line's name and its figure, for lines that have it."""
    return {line[key]: line[value] for line in lines if value in line}


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


def steps(measured, name):
    """Times of our step over PyTorch's."""
    model = name.removesuffix("-timed-matmuls")
    for mode, bound in (("compiled", 1.0), ("eager", 0.85)):
        ours, theirs = measured.get(name), measured.get(f"torch-{model}-{mode}")
        ratios = {name: ours[0]["step_s"] / theirs[0]["step_s"]} if ours and theirs else {}
        yield target(f"{name}: time, of {mode} PyTorch's", ratios, at_most=bound)


def speeds(measured, name, peak):
    """Flop rate of a step relative to the device's peak."""
    ratios = {line["mode"]: line["gflops"] / 1e3 / peak for line in measured.get(name, [])}
    return target(f"{name}: speed, of {peak:g} Tflop/s", ratios, at_least=0.5)


def kernels(measured):
    """Speeds of single operations, relative to PyTorch's or to a copy."""
    lines = lambda name: measured.get(name, [])
    matmuls = quotients(by(lines("torch-gemm"), "what", "us"), by(lines("gemm"), "what", "us"))
    yield target("matmuls: speed, of PyTorch's", matmuls, at_least=0.97)
    elementwise = {line["kernel"]: line["share_of_copy"] for line in lines("kernels") if line["family"] == "elementwise"}
    yield target("elementwise kernels: bandwidth, of a copy's", elementwise, at_least=0.85)
    ours, theirs = (by(lines(name), "kernel", "microseconds") for name in ("kernels", "torch-attention"))
    yield target("attention: speed, of PyTorch's", quotients(theirs, ours), at_least=0.8)


def entries(measured, peak):
    """All targets, for the measurements of each phase by its name and the device's peak in Tflop/s."""
    found = [entry for name in STEPS for entry in steps(measured, name)]
    found += [speeds(measured, name, peak) for name in STEPS[:2]]
    return found + list(kernels(measured))


def text(entry):
    if entry["measured"] is None:
        return f"{entry['target']}: not measured"
    where = f" ({entry['where']})" if "where" in entry else ""
    return f"{entry['target']}: {entry['measured']:.3f}{where}, needs {entry['needed']}: {entry['outcome']}"
