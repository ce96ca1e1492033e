//! Builds the code objects with nvcc, where there is one.

fn main() {
    kernels::build(&kernels::Vendor {
        name: "NVIDIA",
        program: "nvcc",
        compiler: "FASCICLE_NVCC",
        root: ("CUDA_HOME", "/usr/local/cuda"),
        architectures: ("FASCICLE_CUDA_ARCHS", "80;90"),
        source: "kernels.cu",
        file: ("sm_", ".cubin"),
    });
}
