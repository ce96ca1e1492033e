//! State that is kept as means of rows and columns: on every grid the means and weights of one rank, whatever axes and shards
//! cut, and read back by another grid.

mod common;
#[path = "common/grids.rs"]
mod grids;

use common::on;
use fascicle_parallel::{
    Context, Init, Parameter, Result, Scope,
    data::{Factoring, ParameterSet, Part, SetOptions, Sharding, UpdateRule},
};
use std::collections::{BTreeMap, BTreeSet};
use tensor::{
    DType, Error, Tensor,
    ops::{
        factored::Means,
        optimiser::{clip_scale, sgd},
    },
};

/// A part, a tensor, and an element of it.
type Key = (String, String, usize);
type State = BTreeMap<Key, f64>;

const PARTS: [Part; 3] = [Part::Weights, Part::RowMeans, Part::ColumnMeans];

/// Cut along both dims, along one by two axes, along the only dim, not at all, and along three dims, of which two give rows.
const PARAMETERS: [(&str, &[usize], &str); 6] = [
    ("both", &[70, 90], "[y z | x]"),
    ("columns", &[6, 35], "[- | x y]"),
    ("rows", &[50, 3], "[x z | -]"),
    ("vector", &[450], "[x z]"),
    ("whole", &[7, 5], "[- | -]"),
    ("three", &[6, 10, 8], "[z | y | x]"),
];

fn options(sharding: Sharding) -> SetOptions {
    SetOptions {
        trains: true,
        factors: true,
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

/// A gradient by its global index, of sizes far apart.
fn gradient(step: u64, element: usize) -> f64 {
    let wave = (element as f64 * 0.7310 + step as f64).sin();
    wave.powi(5) * 10f64.powi((element / 97 % 7) as i32 - 3)
}

fn elements(shape: &[usize], index: &grid::IndexBox) -> Vec<usize> {
    let runs = index.contiguous_runs(shape);
    runs.flat_map(|(start, len)| start..start + len).collect()
}

const FACTORING: Factoring = Factoring {
    means: Means {
        keep: 0.6,
        epsilon: 1e-30,
    },
    most: 1.0,
};

fn step(context: &Context, set: &ParameterSet, number: u64) -> Result<()> {
    let gradients = set.begin_step(number, 8)?.finish()?;
    set.write::<Error>(Part::Gradient, |parameter| {
        let own = elements(parameter.global_shape(), parameter.index());
        Ok(own.iter().map(|at| gradient(number, *at)).collect())
    })?;
    let device = context.device();
    let factor = clip_scale(&Tensor::full(device, DType::F64, &[1], 1.0)?, None, 0.5)?;
    let rule = |_: &Parameter| UpdateRule {
        rate_factor: 1.0,
        weight_decay: 0.1,
    };
    gradients.update_factored(FACTORING, &factor, rule, |_, clip, pieces| {
        sgd(device, pieces, clip, 0.01, 0.0)
    })?;
    gradients.update::<Error>(&factor, rule, |_, _, pieces| {
        assert!(pieces.is_empty(), "all parameters have means");
        Ok(())
    })
}

/// What this rank has of all parts as its own, each with whether this rank is the first of those that hold the same part.
fn own(context: &Context, set: &ParameterSet) -> Result<Vec<(Key, f64, bool)>> {
    let mut numbered = Vec::new();
    let is_replica = context.index(grid::Axis::Data) > 0;
    for part in PARTS {
        set.read::<Error>(part, |parameter, numbers| {
            let shape = set.options().shape_of(part, parameter);
            let own = elements(&shape, &set.options().own(part, parameter));
            assert_eq!(own.len(), numbers.len());
            for (element, number) in own.into_iter().zip(numbers) {
                let key = (format!("{part:?}"), parameter.name().to_owned(), element);
                let is_first = parameter.counts_in_norm(context) && !is_replica;
                numbered.push((key, number, is_first));
            }
            Ok(())
        })?;
    }
    Ok(numbered)
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
                let held = elements(&shape, &set.options().held(part, parameter));
                let name = parameter.name().to_owned();
                let number = |element| before[&(format!("{part:?}"), name.clone(), element)];
                Ok(held.into_iter().map(number).collect())
            })?;
        }
        steps
            .clone()
            .try_for_each(|number| step(context, &set, number))?;
        own(context, &set)
    });
    let (mut all, mut written) = (State::new(), BTreeSet::new());
    for (key, number, is_first) in found.into_iter().flat_map(|of_rank| of_rank.unwrap()) {
        let other = all.insert(key.clone(), number);
        assert!(
            other.is_none_or(|other| other == number),
            "{key:?} differs on {grid}"
        );
        let is_new = is_first && written.insert(key.clone());
        assert_eq!(is_new, is_first, "{key:?} of two ranks on {grid}");
    }
    assert_eq!(
        written.len(),
        all.len(),
        "every number has a rank that writes it"
    );
    all
}

/// The same steps in plain numbers.
fn plain(steps: std::ops::Range<u64>) -> State {
    let mut state = State::new();
    for (name, shape, _) in PARAMETERS {
        let columns = *shape.last().unwrap();
        let count: usize = shape.iter().product();
        let rows = count / columns;
        let mut weights = vec![0.5; count];
        let (mut of_rows, mut of_columns) = (vec![0.0; rows], vec![0.0; columns]);
        for number in steps.clone() {
            let gradients: Vec<f64> = (0..count).map(|at| 0.5 * gradient(number, at)).collect();
            of_rows.iter_mut().for_each(|mean| *mean *= 0.6);
            of_columns.iter_mut().for_each(|mean| *mean *= 0.6);
            for (at, g) in gradients.iter().enumerate() {
                of_rows[at / columns] += 0.4 * (g * g + 1e-30) / columns as f64;
                of_columns[at % columns] += 0.4 * (g * g + 1e-30) / rows as f64;
            }
            let mean = of_rows.iter().sum::<f64>() / rows as f64;
            let moment = |at: usize| of_rows[at / columns] * of_columns[at % columns] / mean;
            let directions: Vec<f64> = (0..count)
                .map(|at| gradients[at] / moment(at).sqrt())
                .collect();
            let size = directions.iter().map(|u| u * u).sum::<f64>() / count as f64;
            for (w, u) in weights.iter_mut().zip(&directions) {
                *w -= 0.01 * (u / size.sqrt().max(1.0) + 0.1 * *w);
            }
        }
        let parts = PARTS.into_iter().zip([weights, of_rows, of_columns]);
        for (part, numbers) in parts {
            let numbers = numbers.into_iter().enumerate();
            let key = |at| (format!("{part:?}"), name.to_owned(), at);
            state.extend(numbers.map(|(at, number)| (key(at), number)));
        }
    }
    state
}

#[test]
fn every_grid_has_the_means_of_one_rank() {
    let expected = run("x=1", Sharding::None, None, 0..3);
    let plain = plain(0..3);
    assert!(expected.keys().eq(plain.keys()), "each number once");
    for (key, number) in &plain {
        let apart = (expected[key] - number).abs();
        assert!(
            apart <= 1e-5 * number.abs(),
            "{key:?}: {} of {number}",
            expected[key]
        );
    }
    grids::end_alike(run, &expected);
}

#[test]
fn another_grid_goes_on_with_the_means() {
    let expected = run("x=1", Sharding::None, None, 0..3);
    grids::go_on_alike(run, &expected);
}

#[test]
fn an_update_that_is_skipped_changes_nothing() {
    let expected = run("x=2,data=2", Sharding::Optimiser, None, 0..1);
    let found = on("x=2,data=2", |context| {
        let set = set(context, Sharding::Optimiser)?;
        step(context, &set, 0)?;
        let gradients = set.begin_step(1, 8)?.finish()?;
        set.write::<Error>(Part::Gradient, |parameter| {
            Ok(vec![f64::INFINITY; parameter.num_elements()])
        })?;
        let device = context.device();
        let factor = clip_scale(
            &Tensor::full(device, DType::F64, &[1], f64::NAN)?,
            None,
            1.0,
        )?;
        let rule = |_: &Parameter| UpdateRule {
            rate_factor: 1.0,
            weight_decay: 0.1,
        };
        gradients.update_factored(FACTORING, &factor, rule, |_, clip, pieces| {
            sgd(device, pieces, clip, 0.01, 0.0)
        })?;
        own(context, &set)
    });
    for of_rank in found {
        let of_rank = of_rank.unwrap();
        let kept = of_rank
            .iter()
            .all(|(key, number, _)| expected[key] == *number);
        assert!(kept, "means and weights stay");
    }
}

#[test]
fn means_beside_states_are_refused() {
    let found = on("x=1", |context| {
        let options = SetOptions {
            num_states: 1,
            ..options(Sharding::None)
        };
        Ok(ParameterSet::allocate(context, Vec::new(), &[], options)
            .unwrap_err()
            .to_string())
    });
    let expected = "optimiser state: 1 states beside means of rows, needs either of them";
    assert_eq!(found[0].as_ref().unwrap(), expected);
}
