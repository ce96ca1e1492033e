//! Builds the code objects with hipcc, where there is one.

fn main() {
    kernels::build(&kernels::Vendor {
        name: "AMD",
        program: "hipcc",
        compiler: "FASCICLE_HIPCC",
        root: ("ROCM_PATH", "/opt/rocm"),
        architectures: ("FASCICLE_HIP_ARCHS", "gfx90a"),
        source: "kernels.hip",
        file: ("", ".hsaco"),
    });
}
