# Sourced by ci/gpu.sh: the emulator's libraries in place of the vendor's, with one device. Everything else is as on a
# device.
export FASCICLE_EMULATOR_DIR=${FASCICLE_EMULATOR_DIR:-$PWD/target/gpu-emulator}
export FASCICLE_EMULATOR_DEVICES=${FASCICLE_EMULATOR_DEVICES:-1}
# The tests build the emulator when they need it.
FASCICLE_REQUIRE=emulator timeout 600 "$GPU_WORK/kit/gpu-tests" epilogues > "$GPU_WORK/emulator.log" 2>&1 ||
  fail "the emulator cannot be built: $(tail -n 1 "$GPU_WORK/emulator.log")"
libraries=$(ls -td "$FASCICLE_EMULATOR_DIR"/*/cuda-13-hip-6.4 | head -n 1)
export FASCICLE_CUDA_PATH=${FASCICLE_CUDA_PATH:-$libraries} FASCICLE_CUDA_OBJECT=$libraries/kernels.image
export FASCICLE_ROCM_PATH=${FASCICLE_ROCM_PATH:-$libraries} FASCICLE_ROCM_OBJECT=$libraries/kernels.image
