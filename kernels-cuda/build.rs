//! Builds the code objects with nvcc, where there is one.

fn main() {
    kernels::build(&kernels::Vendor {
        name: "NVIDIA",
        program: "nvcc",
        compiler: kernels::variables::NVCC,
        root: (kernels::variables::CUDA_HOME, "/usr/local/cuda"),
        architectures: (kernels::variables::CUDA_ARCHITECTURES, "80;90a;compute_90"),
        options: |name| match name.strip_prefix("compute_") {
            Some(_) => ["-ptx".into(), format!("-arch={name}")],
            None => [
                "-cubin".into(),
                format!("-gencode=arch=compute_{name},code=sm_{name}"),
            ],
        },
        source: "kernels.cu",
        file: |name| match name.strip_prefix("compute_") {
            Some(_) => format!("{name}.ptx"),
            None => format!("sm_{name}.cubin"),
        },
    });
}
