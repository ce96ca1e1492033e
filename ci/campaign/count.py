"""Counts the tests of the repository by kind, as NAME=COUNT."""

import pathlib
import re

TEST = re.compile(r"^\s*#\[test\]", re.MULTILINE)


def tests(*patterns):
    paths = {path for pattern in patterns for path in pathlib.Path().glob(pattern)}
    return sum(len(TEST.findall(path.read_text())) for path in paths)


def lines(path, pattern):
    return len(re.findall(pattern, pathlib.Path(path).read_text(), re.MULTILINE))


kinds = {
    "beside_the_code": tests("crates/*/src/**/*.rs", "crates/*/*/src/**/*.rs", "kernels-*/src/**/*.rs", "src/**/*.rs"),
    "of_one_crate": tests("crates/*/tests/**/*.rs"),
    "of_the_system": tests("tests/**/*.rs"),
    "of_the_bindings": tests("bindings/*/src/**/*.rs", "bindings/*/tests/**/*.rs"),
    "scripts": len(list(pathlib.Path("ci").glob("*.sh"))),
    "formats_fuzzed": len(list(pathlib.Path("tests/fuzz/corpus").iterdir())),
    "inputs_kept": sum(path.is_file() for path in pathlib.Path("tests/fuzz/corpus").glob("*/*")),
    "models_of_interleavings": lines("crates/interleavings/tests/models.rs", r"^        [a-z]\w+$"),
    "faults_planted_in_waits": lines("ci/interleavings.sh", r"^plant "),
    "faults_planted_in_jobs": lines("ci/simulation/faults.sh", r"^switch "),
    "faults_planted_in_disks": lines("crates/checkpoint/src/tests/power/planted.rs", r"^        Plant::\w+,$"),
}
print(*(f"{name}={count}" for name, count in kinds.items()))
