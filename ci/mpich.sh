#!/usr/bin/env bash
# ci/mpi.sh with MPICH, from which Cray's MPI is derived: the program is built against Debian's package, which is unpacked into
# target/mpich and not installed. Not part of .ci/run, since it compiles the workspace once more.
set -euo pipefail
cd "$(dirname "$0")/.."
# Installs what both libraries need.
source ci/workspace.sh
root=$PWD/target/mpich/root
mkdir -p "$root" target/mpich/bin
if [ ! -e "$root/usr/bin/mpiexec.hydra" ]; then
  packages=$(mktemp -d)
  trap 'rm -rf "$packages"' EXIT
  timeout 300 apt-get update -qq
  (cd "$packages" && timeout 300 apt-get download -q mpich libmpich12 libmpich-dev libslurm38 hwloc-nox > /dev/null)
  for package in "$packages"/*.deb; do dpkg -x "$package" "$root"; done
fi
libraries=$(echo "$root"/usr/lib/*-linux-gnu) headers=$(echo "$root"/usr/include/*-linux-gnu/mpich)
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} MPICC=$PWD/target/mpich/bin/mpicc CARGO_TARGET_DIR=$PWD/target/mpich
# Its own compiler names /usr.
cat > "$MPICC" <<END
#!/bin/sh
flags="-I$headers -L$libraries -lmpich"
case \$1 in -show*) echo "gcc \$flags" ;; *) exec gcc "\$@" \$flags ;; esac
END
# Its launcher, with Open MPI's way to state a variable.
cat > target/mpich/bin/mpirun <<END
#!/usr/bin/env bash
words=()
while [ \$# -gt 0 ]; do
  case \$1 in -x) words+=(-genv "\${2%%=*}" "\${2#*=}"); shift 2 ;; *) words+=("\$1"); shift ;; esac
done
exec "$root/usr/bin/mpiexec.hydra" -bootstrap fork "\${words[@]}"
END
chmod +x target/mpich/bin/*
export PATH=$PWD/target/mpich/bin:$root/usr/bin:$PATH
# If a rank is killed, this launcher ends the others before one of them can say so.
launcher_says='BAD TERMINATION' ci/mpi.sh

# A library whose calls of ULFM end the process is refused before anything is trained.
status=0
refused=$(timeout 60 mpirun -n 2 "$CARGO_TARGET_DIR/debug/fascicle" train --survive --out "$CARGO_TARGET_DIR/refused" --auto-resume 2>&1) || status=$?
[ "$status" -eq 2 ] && grep -q -- '--survive: mpi: MPICH [0-9.]*, needs a library with ULFM' <<< "$refused" && [ ! -e "$CARGO_TARGET_DIR/refused" ] ||
  { printf 'mpich: --survive: status %s: %s\n' "$status" "$refused" >&2; exit 1; }
printf 'mpich: what ci/mpi.sh checks, and the refusal of --survive: all right\n'
