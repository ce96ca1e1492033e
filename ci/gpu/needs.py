"""Reads `fascicle doctor --json` from stdin: fails in one sentence if a vendor lacks what every phase needs, and otherwise
prints the number of its devices.

    fascicle doctor --json | needs.py cuda
"""

import json
import re
import sys


def lacking(vendor, usable, texts):
    """The sentence, or None."""
    if not usable:
        return next((text for text in texts if "no device" in text), f"{vendor}: no device")
    blas = next((text for text in texts if text.startswith(("cuBLAS not found", "hipBLAS not found"))), None)
    if blas:
        return blas
    if "kernels: none in this build" in texts:
        return f"no kernels for {vendor} in this build: build the kit where there is nvcc or hipcc"
    return None


def main():
    vendor = sys.argv[1]
    found = {entry["vendor"]: entry for entry in json.load(sys.stdin)["vendors"]}[vendor]
    reason = lacking(vendor, found["usable"], found["findings"])
    if reason:
        sys.exit(reason)
    print(sum(bool(re.match(r"device \d+:", text)) for text in found["findings"]))


if __name__ == "__main__":
    main()
