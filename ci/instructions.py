"""Counts the instructions in the main loops of the kernels that use matrix units, from NVIDIA's disassembly.

Usage: instructions.py NVDISASM CUBIN

Prints one line per kernel. Fails if a loop loads from global memory into registers: every warp would wait for it, so rows
must come through shared memory, copied ahead. A loop's count includes what only some rounds do: masks, new maxima.
"""

import re
import subprocess
import sys
from collections import Counter

FUNCTION = re.compile(r"\s*\.section\s+\.text\.(\S+?),")
LABEL = re.compile(r"\s*(\.L_x_\d+):")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_]+)(.*?);")
BACK = re.compile(r"`\((\.L_x_\d+)\)")


def functions(text):
    """The opcodes of each function, and its loops: from a label to a branch back to it."""
    found, name, labels = {}, None, {}
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            name, labels = match[1].strip('"'), {}
            found[name] = ([], [])
        elif name and (match := LABEL.match(line)):
            labels[match[1]] = len(found[name][0])
        elif name and (match := INSTRUCTION.search(line)):
            opcodes, loops = found[name]
            opcodes.append(match[1])
            target = BACK.search(match[2])
            if match[1] == "BRA" and target and target[1] in labels:
                loops.append((labels[target[1]], len(opcodes)))
    return found


def main():
    disassembler, cubin = sys.argv[1:]
    text = subprocess.run([disassembler, "-c", cubin], capture_output=True, text=True, check=True).stdout
    print(f"{'main loop of':<60} {'instructions':>12} {'matrix':>7} {'shared':>7} {'global':>7} {'branches':>9}")
    waiting, seen = [], 0
    for name, (opcodes, loops) in sorted(functions(text).items()):
        counts = [Counter(opcodes[start:end]) for start, end in loops]
        # The loop with the most multiplications; of a loop and the one around it, the inner.
        main_loop = max(counts, key=lambda count: (count["HMMA"], -count.total()), default=Counter())
        if main_loop["HMMA"] == 0:
            continue
        seen += 1
        numbers = (main_loop.total(), main_loop["HMMA"], main_loop["LDSM"], main_loop["LDG"], main_loop["BRA"])
        print(f"{name:<60} {numbers[0]:>12} {numbers[1]:>7} {numbers[2]:>7} {numbers[3]:>7} {numbers[4]:>9}")
        if main_loop["LDG"]:
            waiting.append(name)
    if seen == 0 or waiting:
        sys.exit(f"{cubin}: loops that wait for global memory: {', '.join(waiting) or 'no loop was found'}")


main()
