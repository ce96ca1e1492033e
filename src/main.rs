//! The program `fascicle`: the command line over every vendor that this build carries.

fn main() -> std::process::ExitCode {
    cli::main(&fascicle::registry::drivers())
}
