//! State that is kept as 8-bit codes: on every grid the codes, scales and weights of one rank, wherever cuts and shards lie in
//! blocks, and read back by another grid.

mod common;
#[path = "common/grids.rs"]
mod grids;

use common::on;
use fascicle_parallel::{
    Context, Init, Parameter, Result, Scope,
    data::{ParameterSet, Part, SetOptions, Sharding, UpdateRule},
};
use std::collections::BTreeMap;
use tensor::{
    DType, Error, Tensor,
    ops::{
        coded::{coded_adamw, coded_scales},
        optimiser::{AdamW, clip_scale},
    },
};

/// A number for each part and element of each tensor.
type State = BTreeMap<(String, String, usize), f64>;

const PARTS: [Part; 5] = [
    Part::Weights,
    Part::State(0),
    Part::State(1),
    Part::Scales(0),
    Part::Scales(1),
];

/// Cut along the columns by one axis and by two, along both dims, along the only dim by two, and between blocks alone.
const PARAMETERS: [(&str, &[usize], &str); 5] = [
    ("columns", &[6, 900], "[- | x]"),
    ("twice", &[5, 1100], "[- | x y]"),
    ("both", &[70, 90], "[y z | x]"),
    ("vector", &[4500], "[x z]"),
    ("aligned", &[4, 1024], "[z | x]"),
];

fn options(sharding: Sharding) -> SetOptions {
    SetOptions {
        trains: true,
        num_states: 2,
        codes: true,
        sharding,
        ..SetOptions::inference(DType::F32)
    }
}

fn set(context: &Context, sharding: Sharding) -> Result<ParameterSet> {
    let scope = Scope::new(context);
    let declare = |(name, shape, layout): &(&str, &[usize], &str)| {
        let layout = layout.parse().unwrap();
        Parameter::declare(&scope, name, shape, layout, Init::Constant(0.5), false)
    };
    let parameters = PARAMETERS.iter().map(declare).collect::<Result<_>>()?;
    ParameterSet::allocate(context, parameters, &[], options(sharding))
}

/// A gradient by its global index: of another size in every block, with the largest of a block anywhere.
fn gradient(step: u64, element: usize) -> f64 {
    let wave = (element as f64 * 0.7310 + step as f64).sin();
    wave.powi(5) * (1.0 + (element / 97 % 7) as f64)
}

fn step(context: &Context, set: &ParameterSet, number: u64) -> Result<()> {
    let gradients = set.begin_step(number, 8)?.finish()?;
    set.write::<Error>(Part::Gradient, |parameter| {
        let runs = parameter.index().contiguous_runs(parameter.global_shape());
        let elements = runs.flat_map(|(start, len)| start..start + len);
        Ok(elements.map(|element| gradient(number, element)).collect())
    })?;
    let device = context.device();
    let factor = clip_scale(&Tensor::full(device, DType::F64, &[1], 1.0)?, None, 1.0)?;
    let settings = AdamW {
        rate: 0.01,
        beta1: 0.9,
        beta2: 0.99,
        epsilon: 1e-8,
        step: number + 1,
    };
    let rule = |_: &Parameter| UpdateRule {
        rate_factor: 1.0,
        weight_decay: 0.0,
    };
    gradients.update_coded(
        rule,
        |_, pieces| coded_scales(device, pieces, &factor, settings),
        |_, pieces| coded_adamw(device, pieces, &factor, settings),
    )?;
    gradients.update::<Error>(&factor, rule, |_, _, pieces| {
        assert!(pieces.is_empty(), "all parameters are large");
        Ok(())
    })
}

/// What this rank has of all parts as its own.
fn own(set: &ParameterSet) -> Result<State> {
    let mut state = State::new();
    for part in PARTS {
        set.read::<Error>(part, |parameter, numbers| {
            let shape = set.options().shape_of(part, parameter);
            let index = set.options().own(part, parameter);
            let runs = index.contiguous_runs(&shape);
            let elements = runs.flat_map(|(start, len)| start..start + len);
            for (element, number) in elements.zip(numbers) {
                let key = (format!("{part:?}"), parameter.name().to_owned(), element);
                state.insert(key, number);
            }
            Ok(())
        })?;
    }
    Ok(state)
}

/// The state of all ranks after steps on a grid, from that of another grid if there is one.
fn run(
    grid: &'static str,
    sharding: Sharding,
    before: Option<State>,
    steps: std::ops::Range<u64>,
) -> State {
    let found = on(grid, move |context| {
        let set = set(context, sharding)?;
        for part in before.iter().flat_map(|_| PARTS) {
            let before = before.as_ref().expect("one at least");
            set.write::<Error>(part, |parameter| {
                let shape = set.options().shape_of(part, parameter);
                let index = set.options().held(part, parameter);
                let runs = index.contiguous_runs(&shape);
                let elements = runs.flat_map(|(start, len)| start..start + len);
                let name = parameter.name().to_owned();
                let number = |element| before[&(format!("{part:?}"), name.clone(), element)];
                Ok(elements.map(number).collect())
            })?;
        }
        steps
            .clone()
            .try_for_each(|number| step(context, &set, number))?;
        own(&set)
    });
    let mut all = State::new();
    for (key, number) in found.into_iter().flat_map(|of_rank| of_rank.unwrap()) {
        let other = all.insert(key.clone(), number);
        assert!(
            other.is_none_or(|other| other == number),
            "{key:?} differs on {grid}"
        );
    }
    all
}

#[test]
fn every_grid_has_the_codes_and_scales_of_one_rank() {
    let expected = run("x=1", Sharding::None, None, 0..3);
    let codes = |part: &str| {
        let codes = expected.iter().filter(|((of, ..), _)| of == part);
        codes
            .map(|(_, code)| *code as u8)
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert!(codes("State(0)").len() > 100 && codes("State(1)").len() > 100);
    let blocks = PARAMETERS.map(|(_, shape, _)| {
        shape[..shape.len() - 1].iter().product::<usize>() * shape[shape.len() - 1].div_ceil(256)
    });
    let scales = expected.keys().filter(|(part, ..)| part == "Scales(1)");
    assert_eq!(scales.count(), blocks.iter().sum::<usize>());
    grids::end_alike(run, &expected);
}

#[test]
fn another_grid_goes_on_with_the_bytes() {
    let expected = run("x=1", Sharding::None, None, 0..3);
    grids::go_on_alike(run, &expected);
}
