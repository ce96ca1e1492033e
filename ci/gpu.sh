#!/usr/bin/env bash
# Checks and measures the CUDA vendor (FASCICLE_VENDOR=rocm: the ROCm vendor) on a machine with a device, in phases: the
# cheapest and most telling first. Prints one line per phase and per target. FOLDER, by default target/gpu-results,
# receives results.json and results.tar.gz, which has all logs too. Both are replaced before and after every phase, so
# they hold all that was reached when the machine is taken away.
#
# Usage: ci/gpu.sh --build               on a machine with nvcc or hipcc, device or not: builds the kit for the other machine
#        ci/gpu.sh [OPTIONS] [FOLDER]    on the machine with the device, without Rust and without a compiler
#   --call a|b         a: what is there, checks, kernels, a step of GPT 124M (the default); b: steps of GPT 1.3B, counters
#   --only NAME,NAME   these phases alone, in this order
#   --list             prints the phases
#   --budget SECONDS   phases that have not started by then are reported as not reached (480)
#   --rehearse         on the emulator with small sizes: shows that this script works; not for speed
# The kit is target/gpu-kit (FASCICLE_KIT names another folder). PYTHON names the Python to use, with PyTorch for
# comparison (python3); FASCICLE_PEAK_TFLOPS the device's bf16 peak (989: H100, H200).
# Status: 0, 1 when a phase failed or was cut at its own limit, 2 for wrong use.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf 'gpu: %s\n' "$1" >&2; exit "${2:-1}"; }

export FASCICLE_VENDOR=${FASCICLE_VENDOR:-cuda} FASCICLE_KIT=${FASCICLE_KIT:-target/gpu-kit} PYTHON=${PYTHON:-python3}
export GPU_REHEARSED=false
case $FASCICLE_VENDOR in cuda | rocm) ;; *) fail "FASCICLE_VENDOR: found $FASCICLE_VENDOR, needs cuda or rocm" 2 ;; esac
call=a only='' budget=480 folder=''
while [ $# -gt 0 ]; do
  case $1 in
    --build) exec bash ci/gpu/build.sh ;;
    --list) exec bash ci/gpu/phases.sh --list ;;
    --rehearse) GPU_REHEARSED=true; shift ;;
    --call | --only | --budget) [ $# -gt 1 ] || fail "$1: needs a value" 2; printf -v "${1#--}" %s "$2"; shift 2 ;;
    -*) fail "found $1, needs --build, --list, --call, --only, --budget, --rehearse or a folder" 2 ;;
    *) [ -z "$folder" ] || fail "found the folders $folder and $1, needs one" 2; folder=$1; shift ;;
  esac
done
case $call in a | b) ;; *) fail "--call: found $call, needs a or b" 2 ;; esac
[[ $budget =~ ^[1-9][0-9]{0,5}$ ]] || fail "--budget: found $budget, needs seconds from 1 to 999999" 2

# The phases of this run, each with its limit in seconds. All need what `doctor` finds.
all=$(bash ci/gpu/phases.sh --list)
limit_of() { awk -v name="$1" '$2 == name { print $3 }' <<< "$all"; }
phases=()
if [ -n "$only" ]; then
  for name in doctor ${only//,/ }; do
    [ -n "$(limit_of "$name")" ] || fail "--only: found $name, needs a name that --list prints" 2
    [[ " ${phases[*]} " == *" $name "* ]] || phases+=("$name")
  done
else
  mapfile -t phases < <(awk -v call="$call" '$1 == call || $2 == "doctor" { print $2 }' <<< "$all")
fi

command -v "$PYTHON" > /dev/null || fail "no $PYTHON here, which writes the results: PYTHON names another"
out=$(realpath -m "${folder:-target/gpu-results}")
mkdir -p "$out"
# Nothing of an earlier run can pass for a result of this one.
rm -f "$out"/results.json "$out"/results.tar.gz
GPU_WORK=$(mktemp -d)
export GPU_WORK
trap 'rm -rf "$GPU_WORK"' EXIT
mkdir "$GPU_WORK/kit"
for program in fascicle gpu-tests; do
  if [ -f "$FASCICLE_KIT/$program.gz" ]; then
    gzip -dc "$FASCICLE_KIT/$program.gz" > "$GPU_WORK/kit/$program"
  else
    # A link takes no room; it names the file itself, since the kit's folder may be relative.
    { [ -f "$FASCICLE_KIT/$program" ] && ln -s "$(realpath "$FASCICLE_KIT/$program")" "$GPU_WORK/kit/$program"; } ||
      fail "no $program in $FASCICLE_KIT: run ci/gpu.sh --build where there are Rust and nvcc or hipcc, and carry the folder here"
  fi
  [ -x "$GPU_WORK/kit/$program" ] || chmod +x "$GPU_WORK/kit/$program"
done

# What happened, a line each. results.py reads these, and treats a phase that started and did not end as cut.
event() { local IFS=$'\t'; printf '%s\n' "$*" >> "$GPU_WORK/events"; }
save() { "$PYTHON" ci/gpu/results.py "$GPU_WORK" "$out" --peak-tflops "${FASCICLE_PEAK_TFLOPS:-989}" "$@"; }
event run started_at "$(date -u +%FT%TZ)"
event run vendor "$FASCICLE_VENDOR"
event run rehearsed "$GPU_REHEARSED"
event run call "${only:-$call}"
event run budget_s "$budget"
event run kit "$(head -n 1 "$FASCICLE_KIT/version.txt" 2> /dev/null || echo 'of unknown version')"
for name in "${phases[@]}"; do event plan "$name"; done

# Ends early, with all that was reached.
running='' current=''
stop() {
  event stop "$1"
  if [ -n "$running" ]; then
    kill "$running" 2> /dev/null || true
    event end "$current" cut $((SECONDS - start))
  fi
  save --print
  exit "$2"
}
trap 'stop "a signal ended the script" 143' TERM INT HUP
save

if $GPU_REHEARSED; then source ci/gpu/rehearse.sh; fi
for current in "${phases[@]}"; do
  left=$((budget - SECONDS))
  [ "$left" -gt 0 ] || stop "the budget of $budget s is spent" "$("$PYTHON" ci/gpu/results.py "$GPU_WORK" --status)"
  limit=$(limit_of "$current") start=$SECONDS status=0
  event start "$current" $((limit < left ? limit : left)) "$limit"
  save
  # A phase is a process group of its own, which `timeout` ends as a whole.
  timeout --kill-after=5 $((limit < left ? limit : left)) bash ci/gpu/phases.sh "$current" \
    > "$GPU_WORK/$current.json" 2> "$GPU_WORK/$current.log" &
  running=$!
  wait "$running" || status=$?
  running=''
  event end "$current" "$status" $((SECONDS - start))
  save --print-phase "$current"
  if [ "$current" = doctor ] && [ "$status" -ne 0 ]; then stop "$(tail -n 1 "$GPU_WORK/doctor.log")" 1; fi
done
current=''
stop finished "$("$PYTHON" ci/gpu/results.py "$GPU_WORK" --status)"
