//! Plans of grids that cut sequences.

use fascicle_plan::{Request, enumerate, search};
use grid::machine::Machine;
use parallel::ContextAttention;

// 8 heads and sequences of 32 tokens on one node of Selene.
fn request(grid: &str, asked: Option<ContextAttention>) -> Request {
    let mut model = families::gpt::published(2, 64, 8);
    model.context = 32;
    let degrees: grid::Degrees = grid.parse().unwrap();
    Request {
        batch: 8,
        grid: Some(degrees),
        context_attention: asked,
        ..Request::new(
            Machine::find("selene").unwrap(),
            degrees.world_size().unwrap(),
            "small",
            model.into(),
        )
        .unwrap()
    }
}

fn ways(grid: &str, asked: Option<ContextAttention>) -> Vec<String> {
    let all = enumerate::candidates(&request(grid, asked)).into_iter();
    let mut ways: Vec<String> = all.map(|one| one.context_attention.to_string()).collect();
    ways.sort();
    ways.dedup();
    ways
}

#[test]
fn heads_are_exchanged_where_ranks_divide_them() {
    let heads = Some(ContextAttention::Heads);
    assert_eq!(
        ways("context=8", None),
        ["gather", "heads", "ring", "ring:4"]
    );
    assert_eq!(ways("x=4,context=2", heads), ["heads"]);
    assert_eq!(ways("x=4,context=4", None), ["gather", "ring", "ring:2"]);
    assert_eq!(ways("x=8,context=4", None), ["gather", "ring"]);
    assert!(ways("x=4,context=4", heads).is_empty());
    assert_eq!(ways("x=4,data=2", heads), ["heads"]);
}

#[test]
fn heads_that_cannot_be_exchanged_are_refused() {
    let heads = Some(ContextAttention::Heads);
    let error = search(&request("x=4,context=4", heads)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "context_attention: found heads on x=4,y=1,z=1,context=4,data=1,pipeline=1, needs ranks that exchange heads to divide \
         those of context and the heads of a rank of x, and equal chunks of sequences"
    );
}
