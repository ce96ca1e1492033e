//! Builds the code objects with hipcc, where there is one.

#[path = "../crates/gpu/kernels/embed.rs"]
mod embed;

fn main() {
    embed::build(&embed::Vendor {
        name: "AMD",
        program: "hipcc",
        compiler: "FASCICLE_HIPCC",
        root: ("ROCM_PATH", "/opt/rocm"),
        architectures: ("FASCICLE_HIP_ARCHS", "gfx90a"),
        source: "kernels.hip",
        file: ("", ".hsaco"),
    });
}
