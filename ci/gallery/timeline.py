"""Draws a trace of `fascicle train --trace` or `fascicle plan --trace` as an SVG: timeline.py TRACE TITLE > FILE.

A row is a stream of a rank. What lasts less than a column of the picture is drawn as the kind that fills most of the column, so the file
stays small however long the trace is."""

import json
import sys
from collections import defaultdict
from html import escape

COLUMNS, ROW, GAP, LEFT, TOP = 800, 13, 7, 170, 78
# Readable for the colour-blind: Okabe and Ito, "Color universal design", 2008.
COLOURS = {
    "matmul": "#0072B2",
    "attention": "#56B4E9",
    "other kernels": "#999999",
    "collective": "#D55E00",
    "message": "#E69F00",
    "copy": "#CC79A7",
    "optimiser": "#009E73",
}
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")
OPTIMISERS = ("adamw", "sgd", "lion", "adafactor", "newton_schulz")


def kind(name):
    if name in ("send", "recv"):
        return "message"
    if name.startswith("copy"):
        return "copy"
    for start, found in (*((each, "collective") for each in COLLECTIVES), *((each, "optimiser") for each in OPTIMISERS)):
        if name.startswith(start):
            return found
    return name.split("_")[0] if name.split("_")[0] in ("matmul", "attention") else "other kernels"


def read(path):
    """Streams by rank, in the trace's order; the spans of each; the time of all."""
    ranks, streams, spans, order = {}, {}, defaultdict(list), []
    for event in json.load(open(path))["traceEvents"]:
        place = (event["pid"], event["tid"])
        if event["ph"] == "M" and event["name"] == "process_name":
            ranks[event["pid"]] = event["args"]["name"]
        elif event["ph"] == "M" and event["name"] == "thread_name":
            streams[place] = event["args"]["name"]
            order.append(place)
        elif event["ph"] == "X" and event["dur"] > 0:
            spans[place].append((event["ts"], event["ts"] + event["dur"], kind(event["name"])))
    begin = min(start for each in spans.values() for start, _, _ in each)
    end = max(end for each in spans.values() for _, end, _ in each)
    # Rank 10 after rank 9, and the stream that computes first.
    number = lambda place: int("".join(filter(str.isdigit, ranks[place[0]])) or 0)
    order.sort(key=lambda place: (number(place), streams[place] != "compute", place))
    return [(ranks[place[0]], streams[place], spans[place]) for place in order if spans[place]], begin, end


def bars(spans, begin, end):
    """Runs of columns of one kind: the first, the number, the kind."""
    width = (end - begin) / COLUMNS
    share = [defaultdict(float) for _ in range(COLUMNS)]
    for start, stop, name in spans:
        column = int((start - begin) / width)
        while column < COLUMNS and begin + column * width < stop:
            low, high = begin + column * width, begin + (column + 1) * width
            share[column][name] += min(stop, high) - max(start, low)
            column += 1
    runs = []
    for column, kinds in enumerate(share):
        busy = sum(kinds.values())
        name = max(kinds, key=kinds.get) if busy > width / 4 else None
        if runs and runs[-1][2] == name:
            runs[-1][1] += 1
        else:
            runs.append([column, 1, name])
    return [run for run in runs if run[2]]


def ticks(span):
    """Distances of a scale that has 4 to 10 of them."""
    step = 10.0 ** len(str(int(span)))
    while span / step < 4:
        step /= 2 if str(step).lstrip("0.")[0] != "5" else 2.5
    return [index * step for index in range(int(span / step) + 1)]


def draw(rows, begin, end, title):
    text = lambda x, y, words, more="": f'<text x="{x}" y="{y}"{more}>{escape(words)}</text>'
    places, y, last = [], TOP, None
    rows = [(rank, stream, bars(spans, begin, end)) for rank, stream, spans in rows]
    rows = [row for row in rows if row[2]]
    for rank, stream, runs in rows:
        y += GAP if last not in (None, rank) else 0
        places.append((y, rank if rank != last else "", stream, runs))
        y, last = y + ROW, rank
    bottom = y
    height, width = bottom + 46, LEFT + COLUMNS + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           f'font-family="sans-serif" font-size="11">', f'<rect width="{width}" height="{height}" fill="#fff"/>',
           text(width // 2, 26, title, ' font-size="17" text-anchor="middle"')]
    x = LEFT
    for name, colour in COLOURS.items():
        if any(name == each for _, _, runs in rows for _, _, each in runs):
            out += [f'<rect x="{x}" y="44" width="12" height="12" fill="{colour}"/>', text(x + 17, 54, name, ' font-size="12"')]
            x += 42 + 7 * len(name)
    unit, name = next(pair for pair in ((1e6, "seconds"), (1e3, "milliseconds"), (1, "microseconds")) if end - begin >= 2 * pair[0] or pair[0] == 1)
    for tick in ticks((end - begin) / unit):
        at = round(LEFT + tick * unit / (end - begin) * COLUMNS, 1)
        out += [f'<path d="M{at} {TOP - 4}V{bottom + 4}" stroke="#ddd"/>',
                text(at, bottom + 18, f"{tick:g}", ' text-anchor="middle"')]
    out.append(text(LEFT + COLUMNS // 2, bottom + 36, f"{name} since the step began", ' text-anchor="middle" font-size="12"'))
    for y, rank, stream, runs in places:
        out += [text(14, y + 10, rank), text(LEFT - 8, y + 10, stream, ' text-anchor="end" fill="#666" font-size="9.5"')]
        paths = defaultdict(str)
        for column, count, name in runs:
            paths[name] += f"M{LEFT + column} {y + 1}h{count}v{ROW - 2}h-{count}z"
        out += [f'<path fill="{COLOURS[name]}" d="{path}"/>' for name, path in paths.items()]
    return "\n".join(out + ["</svg>"])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: timeline.py TRACE TITLE > FILE")
    print(draw(*read(sys.argv[1]), sys.argv[2]))
