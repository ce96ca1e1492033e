//! The program `fascicle`: the command line over every vendor and launcher that this build carries.

fn main() -> std::process::ExitCode {
    cli::main(
        &fascicle::registry::drivers(),
        fascicle::registry::processes(),
    )
}
