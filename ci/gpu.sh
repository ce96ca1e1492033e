#!/usr/bin/env bash
# Checks the CUDA vendor (FASCICLE_VENDOR=rocm: the ROCm vendor) on a machine with a device: the contract suite, parity
# with the CPU vendor, a memory checker over the kernels, benchmarks, and the same benchmarks in PyTorch if it finds the
# device. Prints one line per check with its outcome and one line per target; results.json has all of them.
#
# Usage: ci/gpu.sh --build             on a machine with nvcc or hipcc, device or not: builds the kit for the other machine
#        ci/gpu.sh [FOLDER]            on the machine with the device; results go to FOLDER, default target/gpu-results
#        ci/gpu.sh --rehearse [FOLDER] on the emulator with small sizes: shows that this script works; not for speed
# --build writes target/gpu-kit (FASCICLE_KIT names another folder), which runs without Rust and without a compiler.
# PYTHON names the Python with PyTorch (python3), FASCICLE_PEAK_TFLOPS the device's bf16 peak (989: H100, H200).
set -euo pipefail
cd "$(dirname "$0")/.."
vendor=${FASCICLE_VENDOR:-cuda}
kit=${FASCICLE_KIT:-target/gpu-kit}
fail() { printf 'gpu: %s\n' "$1" >&2; exit 1; }
case $vendor in cuda | rocm) ;; *) fail "FASCICLE_VENDOR: found $vendor, needs cuda or rocm" ;; esac

build() {
  command -v cargo > /dev/null || fail "no cargo here: run ci/gpu.sh --build where there is one, and carry $kit here"
  local built executable
  built=$(cargo test --release -p fascicle-emulator --test vendors --no-run --message-format=json-render-diagnostics)
  executable=$(grep -oE '"executable":"[^"]*/vendors-[0-9a-f]+"' <<< "$built" | tail -n 1 | cut -d '"' -f 4)
  cargo build --release -p fascicle --features cuda,rocm --bin fascicle
  mkdir -p "$kit"
  cp "$executable" "$kit/gpu-tests"
  cp "$(dirname "$(dirname "$executable")")/fascicle" "$kit/fascicle"
  "$kit/fascicle" doctor > "$kit/doctor.txt"
  printf 'gpu: built %s\n' "$kit"
}

rehearse=false
case "${1:-}" in
  --build) build; exit ;;
  --rehearse) rehearse=true; shift ;;
esac
[ -x "$kit/fascicle" ] && [ -x "$kit/gpu-tests" ] || build
out=$(realpath -m "${1:-target/gpu-results}")
mkdir -p "$out"
measured=(gemm torch-gemm kernels torch-attention collectives-staged collectives step-1.3b-separate step-124m-graph step-tiny
  step-tiny-graph)
for model in 1.3b 124m; do
  measured+=("step-$model" "step-$model-timed-matmuls" "torch-step-$model-eager" "torch-step-$model-compiled")
done
# Measurements of an earlier run are not results of this one.
for name in "${measured[@]}" targets; do rm -f "$out/$name.json"; done
export FASCICLE_VENDOR=$vendor
program() { "$kit/fascicle" "$@"; }
# A missing device is a failure here, and no test falls back to the emulator.
tests() { FASCICLE_REQUIRE=$vendor "$kit/gpu-tests" --test-threads 1 "$@"; }

if $rehearse; then
  export FASCICLE_EMULATOR_DIR=$out/emulator
  "$kit/gpu-tests" graph > "$out/emulator.log" 2>&1 || fail "the emulator cannot be built: see $out/emulator.log"
  folder=$(ls -td "$out"/emulator/*/cuda-13-hip-6.4 | head -n 1)
  export FASCICLE_CUDA_PATH=$folder FASCICLE_CUDA_OBJECT=$folder/libcuda.so.1
  export FASCICLE_ROCM_PATH=$folder FASCICLE_ROCM_OBJECT=$folder/libcuda.so.1
fi

program doctor --json > "$out/doctor.json"
program doctor
grep -qE "\"vendor\":\"$vendor\",\"compiled_in\":true,\"usable\":true" "$out/doctor.json" ||
  fail "no $vendor device: see $out/doctor.json"
if ! $rehearse && grep -qE "\"vendor\":\"$vendor\"[^}]*kernels: none in this build" "$out/doctor.json"; then
  fail "$kit has no kernels for $vendor: build it where there is nvcc or hipcc, or name them in FASCICLE_${vendor^^}_OBJECT"
fi

# Runs a check under a name. Its output goes to NAME.log and its outcome into the results. Other checks continue
# after a failure.
results=() failed=0
note() {
  printf 'gpu: %-28s %s in %s s\n' "$1" "$2" "$3"
  results+=("\"$1\":{\"outcome\":\"$2\",\"seconds\":$3}")
}
check() {
  local name=$1 start=$SECONDS outcome=passed
  shift
  "$@" > "$out/$name.log" 2>&1 || { outcome=failed; failed=1; tail -n 20 "$out/$name.log" >&2; }
  note "$name" "$outcome" $((SECONDS - start))
}
# A benchmark prints JSON objects, one per line, into NAME.json; a size that does not run here does not fail the
# others.
measure() {
  local name=$1 start=$SECONDS outcome=measured
  shift
  "$@" > "$out/$name.json" 2> "$out/$name.log" || { outcome='does not run here'; rm "$out/$name.json"; }
  note "$name" "$outcome" $((SECONDS - start))
}

# Several ranks on one device: always with staged collectives, and with NCCL if its version allows it (2.30.3 and
# later).
if $rehearse; then parity=("parity::${vendor}_staged::matrix_units"); else parity=("parity::$vendor::" "parity::${vendor}_staged"); fi
check contract tests "contract::$vendor"
check parity tests "${parity[@]}"
check ways-to-matmuls tests tuning
check epilogues tests epilogues
check recorded-work tests graph
if [ "$vendor" = cuda ]; then
  shared() { NCCL_MULTI_RANK_GPU_ENABLE=1 CUDA_VISIBLE_DEVICES=0 tests parity::cuda::matrix_units; }
  start=$SECONDS outcome=passed
  shared > "$out/shared.log" 2>&1 || outcome='not with this NCCL'
  note nccl-shares-a-device "$outcome" $((SECONDS - start))
fi
if [ "$vendor" = cuda ] && command -v compute-sanitizer > /dev/null && ! $rehearse; then
  sanitized() {
    FASCICLE_REQUIRE=cuda compute-sanitizer --tool "$1" --error-exitcode 9 "$kit/gpu-tests" --test-threads 1 \
      contract::cuda::elementwise contract::cuda::norms
  }
  for tool in memcheck racecheck; do check "$tool" sanitized "$tool"; done
else
  printf 'gpu: no compute-sanitizer here: the kernels are not checked for stray accesses\n'
fi

# GEMMs, kernels and a step of GPT 1.3B, and a step that fits any device; then once more with the fastest GEMM
# variants.
matmul=(--tokens 8192 --hidden 2048 --vocabulary 51200)
heads=(--heads 16 --context 2048)
large=(--layers 24 --hidden 2048 --heads 16 --context 2048 --vocabulary 51200 --batch 4)
small=(--layers 12 --hidden 768 --heads 12 --context 1024 --vocabulary 51200 --batch 8)
tiny=(--layers 6 --hidden 384 --heads 6 --context 256 --vocabulary 256 --batch 8)
if $rehearse; then
  matmul=(--tokens 32 --hidden 64 --vocabulary 128)
  heads=(--heads 1 --context 16)
  large=(--layers 1 --hidden 64 --heads 1 --context 16 --vocabulary 128 --batch 2)
  small=("${large[@]}") tiny=("${large[@]}")
fi
with_choices() { program "$@" --matmul-choices "$out/matmuls.txt"; }
staged() { program "$@" --collectives staged; }
separate() { program "$@" --epilogues separate; }

# PyTorch computes the same, alternating with us, so that a device that slows down slows both; rehearsed on the
# processor.
python=${PYTHON:-python3} torch_on=cuda
if $rehearse; then torch_on=cpu; fi
has_torch() {
  "$python" -c "import sys, torch; sys.exit('$torch_on' == 'cuda' and not torch.cuda.is_available())" > "$out/torch.log" 2>&1
}
if has_torch; then peers=true; else peers=false; fi
$peers || printf 'gpu: no PyTorch with a device here (%s): nothing is measured beside ours\n' "$python"
# Takes the sizes of a model like the program, which uses another word for the width.
beside() {
  local name=$1
  shift
  if $peers; then measure "torch-$name" "$python" ci/peers/gpu.py --device "$torch_on" "${@/#--hidden/--width}"; fi
}

measure gemm program bench gemm --precision bf16 "${matmul[@]}" --json
beside gemm matmuls "${large[@]}"
measure kernels program bench kernels --precision bf16 "${matmul[@]}" "${heads[@]}" --json
beside attention attention "${large[@]}"
measure collectives-staged staged bench collectives --ranks 2 --json
if [ "$(program doctor | grep -cE '^ +device [0-9]+:')" -gt 1 ]; then
  measure collectives program bench collectives --ranks 2 --json
fi
beside step-1.3b-eager step "${large[@]}"
measure step-1.3b program bench step "${large[@]}" --precision bf16 --json
beside step-1.3b-compiled step "${large[@]}" --compile
measure step-1.3b-timed-matmuls with_choices bench step "${large[@]}" --precision bf16 --json
beside step-124m-eager step "${small[@]}"
measure step-124m program bench step "${small[@]}" --precision bf16 --json
beside step-124m-compiled step "${small[@]}" --compile
# The benefit of bias and GELU within GEMMs, and the size at which a recorded step pays.
measure step-1.3b-separate separate bench step "${large[@]}" --precision bf16 --json
measure step-124m-graph program bench step "${small[@]}" --precision bf16 --graph --json
measure step-tiny program bench step "${tiny[@]}" --precision bf16 --json
measure step-tiny-graph program bench step "${tiny[@]}" --precision bf16 --graph --json

# A missed target is reported, and is not a failure of a check.
if "$python" ci/peers/gpu_ratios.py "$out" --peak-tflops "${FASCICLE_PEAK_TFLOPS:-989}" > "$out/targets.log" 2>&1; then
  sed 's/^/gpu: /' "$out/targets.log"
  if $rehearse; then printf 'gpu: rehearsed: these ratios tell nothing but that they are computed\n'; fi
else
  printf 'gpu: no targets: see %s\n' "$out/targets.log"
fi

{
  printf '{"vendor":"%s","rehearsed":%s,"checks":{%s}' "$vendor" "$rehearse" "$(IFS=,; echo "${results[*]}")"
  for name in "${measured[@]}" targets; do
    if [ -s "$out/$name.json" ]; then printf ',"%s":[%s]' "$name" "$(paste -sd, "$out/$name.json")"; fi
  done
  printf '}\n'
} > "$out/results.json"
printf 'gpu: %s\n' "$out/results.json"
exit $failed
