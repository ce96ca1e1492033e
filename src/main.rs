//! The program `fascicle`: the command line over every vendor, launcher and family that this build carries.

use fascicle::registry;

fn main() -> std::process::ExitCode {
    // Before any thread starts.
    hal::environment::settle();
    cli::main(&cli::Registry {
        drivers: registry::drivers(),
        processes: registry::processes(),
        families: registry::families(),
    })
}
