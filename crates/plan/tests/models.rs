//! Models to plan for, by name, and the error for one that does not exist.

use families::families;
use fascicle_plan::{Request, model};
use grid::machine::Machine;

#[test]
fn an_unknown_model_is_told_the_known_ones() {
    let text = model::find("gpt-9b", &families()).unwrap_err().to_string();
    assert!(
        text.contains("`gpt-9b`") && text.contains("gpt-640b"),
        "{text}"
    );
}

#[test]
fn the_published_speed_follows_from_the_published_count() {
    // 620.1 Pflop/s on 4,096 devices is 8.8 s for 16.8M tokens of the 40B model.
    let (name, config) = model::find("40b", &families()).unwrap();
    let machine = Machine::find("perlmutter").unwrap();
    let request = Request::new(machine, 4096, name, config.model).unwrap();
    let seconds = request.flop(true) / 620.1e15;
    assert!((seconds - 8.77).abs() < 0.05, "{seconds}");
}
