"""Records what commands print on terminals of 60, 80 and 120 columns. No line is wider than its terminal, and none breaks a word.

Usage: ci/terminal.py PROGRAM [FOLDER]    writes the recordings into FOLDER, as COMMAND-COLUMNS.txt, if one is given
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

WIDTHS = (60, 80, 120)
# So wide that nothing is broken.
WIDE = 20000
# What moves the cursor, clears lines and colours.
COMMAND = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What continues a comment or a quotation.
MARKS = {"#", "|"}
SMALL = "--data text.txt --set model.hidden=16 --set model.layers=2 --set model.heads=2 --set model.context=16 --batch 4 --grid x=1"


def shown(command, columns, folder):
    """The lines that a terminal of so many columns shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    process.wait()
    text = COMMAND.sub("\n", text.decode()).replace("\r", "\n")
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def words(lines):
    return [word for line in lines for word in line.split() if word not in MARKS]


def faults(lines, columns):
    for line in lines:
        if len(line) > columns and len(words([line])) > 1:
            yield f"{len(line)} columns: {line}"


# Whether a command prints the same words each time, by its name.
COMMANDS = {
    "train": (f"train {SMALL} --steps 40 --set training.validate_every=10 --out run-COLUMNS", False),
    "explain": ("train --explain --data text.txt", False),
    "list": ("config list", True),
    "show": ("config show", True),
    "check": ("config check good.toml", True),
    "plan": ("plan --machine perlmutter --devices 64 --model gpt-5b --grid x=4,z=4,data=4 --budget 2", False),
    "plan-all": ("plan --machine laptop --devices 4 --model good.toml --allow-pipeline --budget 2", False),
    "compare": ("compare run other", True),
    "compare-many": ("compare run other run other run other run other", False),
    "report": ("report run other --out page.html", True),
    "inspect": ("checkpoint inspect run", True),
    "verify": ("checkpoint verify run", True),
    "digest": ("checkpoint digest run --tensors", True),
    "diff": ("checkpoint diff run other", True),
    "export": ("checkpoint export run --overwrite --out weights.safetensors", True),
    "doctor": ("doctor", False),
    "environment": ("doctor --environment", False),
    "watch": ("watch run", False),
    "help": ("train --help", True),
    "flag": ("train --gird x=2", True),
    "key": ("train wrong.toml", True),
    "grid": ("train --data text.txt --grid x=3,z=7", True),
    "data": ("train --data text.bin", True),
    "overlap": ("train --overlap some", True),
}


def main(program, recordings):
    program = Path(program).resolve()
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 400)
        (folder / "text.bin").write_bytes(bytes(4000))
        (folder / "good.toml").write_text("[model]\nlayers = 4\nvocabulary = 256\n")
        (folder / "wrong.toml").write_text("[parallel]\nzzzzzzzz = 1\n")
        for run, seed in (("run", 1), ("other", 2)):
            command = [program, *f"train {SMALL} --steps 20 --seed {seed} --out {run}".split()]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        for title, (line, is_same) in COMMANDS.items():
            def lines(columns):
                return shown([program, *line.replace("COLUMNS", str(columns)).split()], columns, folder)
            whole = words(lines(WIDE)) if is_same else None
            for columns in WIDTHS:
                narrow = lines(columns)
                if recordings:
                    Path(recordings, f"{title}-{columns}.txt").write_text("\n".join(narrow) + "\n")
                found += [f"{title}, {columns}: {fault}" for fault in faults(narrow, columns)]
                if not narrow:
                    found.append(f"{title}, {columns}: printed nothing")
                if is_same and words(narrow) != whole:
                    split = next((a, b) for a, b in zip(words(narrow) + [""], whole + [""]) if a != b)
                    found.append(f"{title}, {columns}: found `{split[0]}`, needs `{split[1]}`")
    if found:
        sys.exit("\n".join(found))
    print(f"{len(COMMANDS)} commands fit terminals of {', '.join(map(str, WIDTHS))} columns")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
