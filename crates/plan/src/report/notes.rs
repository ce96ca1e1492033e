//! What a plan has chosen for segments, and what its times leave out.

use crate::{Plan, Request};
use parallel::Reproducible;

/// Sentences about what the segments of the best one keep, if that was chosen, and about what the predicted times do not cover.
pub fn notes(plan: &Plan) -> Vec<String> {
    let memory = plan.memory.iter();
    let memory =
        memory.map(|choice| format!("memory of the best one: {}", choice.sentences().join("; ")));
    memory.chain(of_request(&plan.request)).collect()
}

fn of_request(request: &Request) -> Vec<String> {
    let vendor = &request.machine.device.vendor[..];
    match request.priced_bits() {
        Reproducible::Grid if vendor != hal::VendorId::CPU.name() => vec![format!(
            "With reproducible sums, {vendor} devices multiply matrices with a kernel of ours, which has not been timed. \
             GEMMs here take the time of the vendor's library, so steps will take longer."
        )],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grid::machine::Machine;

    #[test]
    fn untimed_gemms_of_reproducible_sums_are_noted() {
        let count = |machine: &str, reproducible: Reproducible| {
            let model = families::gpt::published(4, 64, 8).into();
            let machine = Machine::find(machine).unwrap();
            let request = Request::new(machine, 4, "small", model).unwrap();
            of_request(&Request {
                reproducible: reproducible.into(),
                ..request
            })
            .len()
        };
        assert_eq!(count("perlmutter", Reproducible::Grid), 1);
        assert_eq!(count("frontier", Reproducible::Grid), 1);
        assert_eq!(count("perlmutter", Reproducible::Run), 0);
        assert_eq!(count("laptop", Reproducible::Grid), 0);
    }
}
