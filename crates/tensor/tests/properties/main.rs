//! Every public operation, with shapes, types, views, devices, streams and orders that no sane caller would
//! choose. Each call must return a value or an error. A panic fails the test. Miri and the sanitizers detect
//! accesses to other memory; `ci/sanitizers.sh` runs this test under them.

mod calls;
mod world;

use proptest::{prelude::*, test_runner::Config};
use world::{Step, World};

/// Sizes: mostly small, so that many calls fit; some overflow in products.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        12 => 0usize..9,
        2 => prop::sample::select(vec![12usize, 16, 64, 100]),
        1 => prop::sample::select(vec![
            1usize << 16, 1 << 31, 1 << 32, (1 << 32) + 1, 1 << 40, 1 << 60, 1 << 62, 1 << 63, (1 << 63) + 1,
            usize::MAX - 1, usize::MAX
        ]),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop::sample::select(vec![
        0.0,
        0.1,
        0.5,
        1.0,
        -1.0,
        2.0,
        1e-5,
        1e300,
        f64::INFINITY,
        f64::NAN,
    ])
}

fn step() -> impl Strategy<Value = Step> {
    let tensors = any::<[u8; 6]>();
    let sizes = prop::array::uniform5(size());
    let numbers = prop::array::uniform3(number());
    (any::<u8>(), tensors, sizes, numbers, any::<[u8; 3]>()).prop_map(
        |(call, tensors, sizes, numbers, choices)| Step {
            call,
            tensors,
            sizes,
            numbers,
            choices,
        },
    )
}

// Under an interpreter or a sanitizer, few cases must suffice; elsewhere the cases take some seconds.
fn cases() -> Config {
    let default = if cfg!(miri) { 4 } else { 400 };
    let named = std::env::var("FASCICLE_TEST_CASES");
    Config {
        cases: named.map_or(default, |cases| cases.parse().expect("a number of cases")),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_call_ends_in_a_value_or_an_error(
        steps in prop::collection::vec(step(), if cfg!(miri) { 12 } else { 60 })
    ) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.read_everything();
    }
}

/// Most calls must succeed somewhere, otherwise the property shows little.
#[test]
fn each_call_succeeds_somewhere() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    if cfg!(miri) {
        return;
    }
    let mut runner = TestRunner::deterministic();
    let mut succeeded = vec![0usize; calls::ALL.len()];
    for _ in 0..800 {
        let steps = prop::collection::vec(step(), 80).new_tree(&mut runner);
        let mut world = World::new();
        for step in &steps.expect("steps").current() {
            let (call, done) = world.take(step);
            succeeded[call] += usize::from(done);
        }
    }
    let never: Vec<&str> = calls::ALL
        .iter()
        .zip(&succeeded)
        .filter(|(_, count)| **count == 0)
        .map(|((name, _), _)| *name)
        .collect();
    // Nothing can be done with memory that has gone back, and the CPU records no work.
    assert_eq!(never, ["gone", "record"]);
}
