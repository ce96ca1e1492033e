//! Builds the code objects with hipcc, where there is one.

fn main() {
    kernels::build(&kernels::Vendor {
        name: "AMD",
        program: "hipcc",
        compiler: kernels::variables::HIPCC,
        root: (kernels::variables::ROCM_PATH, "/opt/rocm"),
        architectures: (kernels::variables::HIP_ARCHITECTURES, "gfx90a"),
        source: "kernels.hip",
        file: ("", ".hsaco"),
    });
}
