#!/usr/bin/env bash
# Times Fascicle against PyTorch, AxoNN, Open MPI and gloo on this machine, alternately.
#
#   ci/bench-peers.sh                          all cases, 3 rounds
#   ci/bench-peers.sh serial ddp               groups or single cases; --list names them
#   ci/bench-peers.sh --rounds 5 --out peers.json axonn
#
# The options are those of ci/peers/compare.py. The table goes to stderr, JSON to stdout or to --out.
# Python packages go into a virtual environment outside the tree, which is rebuilt when their list changes:
#   FASCICLE_PEERS_VENV   its folder (default ~/.cache/fascicle/peers)
#   PYTHON                the Python that makes it (default python3; 3.11 or newer)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
venv=${FASCICLE_PEERS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/fascicle/peers}
requirements=$root/ci/peers/requirements.txt
axonn=axonn==0.2.0

make_environment() {
    echo "bench-peers: installing PyTorch and AxoNN into $venv" >&2
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet -r "$requirements" >&2
    "$venv/bin/pip" install --quiet --no-deps "$axonn" >&2
    cp "$requirements" "$venv/installed.txt"
}

cmp --silent "$requirements" "$venv/installed.txt" || make_environment
exec "$venv/bin/python" "$root/ci/peers/compare.py" "$@"
