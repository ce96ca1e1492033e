//! Builds the code objects with nvcc, where there is one.

fn main() {
    kernels::build(&kernels::Vendor {
        name: "NVIDIA",
        program: "nvcc",
        compiler: kernels::variables::NVCC,
        root: (kernels::variables::CUDA_HOME, "/usr/local/cuda"),
        architectures: (kernels::variables::CUDA_ARCHITECTURES, "80;90"),
        source: "kernels.cu",
        file: ("sm_", ".cubin"),
    });
}
