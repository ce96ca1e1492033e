//! Builds the code objects with hipcc, where there is one.

fn main() {
    kernels::build(&kernels::Vendor {
        name: "AMD",
        program: "hipcc",
        compiler: kernels::variables::HIPCC,
        root: (kernels::variables::ROCM_PATH, "/opt/rocm"),
        architectures: (kernels::variables::HIP_ARCHITECTURES, "gfx90a;gfx942"),
        options: |name| ["--genco".into(), format!("--offload-arch={name}")],
        source: "kernels.hip",
        file: |name| format!("{name}.hsaco"),
    });
}
