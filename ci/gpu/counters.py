"""What ncu counted: `counters.py FILE` prints a JSON line for each launch in the CSV that `ncu --csv` wrote, the program's own
output included. Status 1 if it has none.

`active` is the share of a launch's cycles in which a multiprocessor has work: what it lacks to 1 is lost at the end, where few
blocks are left.
"""

import csv
import json
import sys

# The name in a line, and ncu's name of the metric.
METRICS = {
    "us": "Duration",
    "registers": "Registers Per Thread",
    "issued": "Issued Warp Per Scheduler",
    "occupancy_percent": "Achieved Occupancy",
    "compute_percent": "Compute (SM) Throughput",
    "dram_percent": "DRAM Throughput",
    "l2_hit_percent": "L2 Hit Rate",
}


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def main(path):
    launches, columns = {}, None
    with open(path, errors="replace") as lines:
        for row in csv.reader(lines):
            if row[:1] == ["ID"]:
                columns = {name: index for index, name in enumerate(row)}
            elif columns and len(row) > columns["Metric Value"]:
                launch = launches.setdefault(row[0], {"kernel": row[columns["Kernel Name"]], "grid": row[columns["Grid Size"]]})
                metric, value = row[columns["Metric Name"]], number(row[columns["Metric Value"]])
                if metric and value is not None:
                    # Times come in the unit that suits their size.
                    scale = {"ns": 1e-3, "ms": 1e3, "s": 1e6}.get(row[columns["Metric Unit"]], 1)
                    launch.setdefault("metrics", {})[metric] = value * scale
    for launch in launches.values():
        metrics = launch.pop("metrics", {})
        launch.update({name: round(metrics[metric], 3) for name, metric in METRICS.items() if metric in metrics})
        if {"SM Active Cycles", "Elapsed Cycles"} <= metrics.keys():
            launch["active"] = round(metrics["SM Active Cycles"] / metrics["Elapsed Cycles"], 3)
        print(json.dumps(launch))
    return 0 if launches else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
