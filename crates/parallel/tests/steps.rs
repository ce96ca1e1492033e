//! A training step whose calls come in a wrong order causes an error that names the fault, and never other
//! numbers.

mod common;

use common::{on, on_with};
use fascicle_parallel::{
    Context, DTensor, Init, Parameter, Pass, Reproducible, Result, RowCut, Scope, Settings,
    data::{Gradients, ParameterSet, Part, SetOptions, Sharding, TrainingStep, UpdateRule},
    layers::Loss,
};
use grid::{Axis, Layout};
use tensor::{DType, Tensor, autograd::backward};

const RULE: UpdateRule = UpdateRule {
    rate_factor: 1.0,
    weight_decay: 0.0,
};

fn trains() -> SetOptions {
    SetOptions {
        trains: true,
        ..SetOptions::inference(DType::F64)
    }
}

fn reproducible() -> Settings {
    Settings {
        reproducible: Reproducible::Grid,
        ..Settings::default()
    }
}

/// A weight of four numbers, all `value`.
fn weight(context: &Context, name: &str, value: f64, frozen: bool) -> Result<Parameter> {
    let mut scope = Scope::new(context);
    scope.frozen = frozen;
    let (layout, init) = (Layout::replicated(1), Init::Constant(value));
    Parameter::declare(&scope, name, &[4], layout, init, false)
}

fn set(context: &Context, parameters: &[Parameter], options: SetOptions) -> Result<ParameterSet> {
    ParameterSet::allocate(context, parameters.to_vec(), &[], options)
}

/// The mean, over the rows of the batch that this rank holds, of a row of ones times the weights.
fn loss(step: &TrainingStep, rows: std::ops::Range<usize>, weights: &[&Parameter]) -> Result<Loss> {
    let pass = step.pass(rows.clone())?;
    let ones = vec![1.0; rows.len() * 4];
    let ones = Tensor::from_slice(pass.context().device(), &[rows.len(), 4], &ones)?;
    let mut x = DTensor::input(&pass, ones)?;
    for weight in weights {
        x = x.mul_row(weight)?;
    }
    Loss::mean(&x)
}

fn run_backward(loss: &Loss) -> Result<()> {
    let loss = loss.var().clone();
    let seed = Tensor::full(loss.tensor().device(), DType::F64, &[1], 1.0)?;
    backward(vec![(loss, seed)])
}

fn whole_step(set: &ParameterSet, number: u64, weights: &[&Parameter]) -> Result<Gradients> {
    let step = set.begin_step(number, 2)?;
    run_backward(&loss(&step, 0..2, weights)?)?;
    step.finish()
}

/// The error that `body` returns on one rank contains this text.
fn refuses(text: &str, body: impl Fn(&Context) -> Result<()> + Send + Sync + 'static) {
    let found = on("x=1", body)
        .remove(0)
        .expect_err("a wrong order of calls");
    assert!(found.contains(text), "{found}, needs {text}");
}

#[test]
fn a_set_for_inference_begins_no_step() {
    refuses("a set made for inference", |context| {
        let w = weight(context, "w", 1.0, false)?;
        set(context, &[w], SetOptions::inference(DType::F64))?
            .begin_step(0, 2)
            .map(drop)
    });
}

#[test]
fn reproducible_sums_need_a_row_on_every_rank() {
    let found = on_with("data=4", reproducible(), |context| {
        let w = weight(context, "w", 1.0, false)?;
        set(context, &[w], trains())?.begin_step(0, 2).map(drop)
    });
    for of_rank in found {
        let found = of_rank.expect_err("two ranks without a row");
        assert!(
            found.contains("2 rows, needs a row for each of data=4"),
            "{found}"
        );
    }
}

#[test]
fn a_rank_without_features_takes_part_in_a_reproducible_sum() {
    let sums = |degrees: &str| -> Vec<f64> {
        let found = on_with(degrees, reproducible(), |context| {
            let pass = Pass::evaluation(context, 1);
            let x = Tensor::from_slice(context.device(), &[1, 1], &[0.3])?;
            let row = DTensor::input(&pass, x)?.expand_features(3, Some(Axis::X))?;
            row.sum_features()?.tensor()?.to_vec()
        });
        let found = found.into_iter().map(|sum| sum.unwrap());
        found.flatten().collect()
    };
    assert_eq!(sums("x=4"), [sums("x=1")[0]; 4]);
}

#[test]
fn a_batch_has_rows() {
    refuses("a batch of 0 rows", |context| {
        let w = weight(context, "w", 1.0, false)?;
        set(context, &[w], trains())?.begin_step(0, 0).map(drop)
    });
}

#[test]
fn rows_lie_within_the_batch() {
    refuses("rows within the global batch of 2", |context| {
        let w = weight(context, "w", 1.0, false)?;
        let set = set(context, std::slice::from_ref(&w), trains())?;
        loss(&set.begin_step(0, 2)?, 1..3, &[&w]).map(drop)
    });
}

#[test]
fn a_step_ends_before_the_next_one() {
    refuses("step 1 of this set after step 2 has begun", |context| {
        let w = weight(context, "w", 1.0, false)?;
        let set = set(context, std::slice::from_ref(&w), trains())?;
        let first = set.begin_step(0, 2)?;
        let second = set.begin_step(1, 2)?;
        run_backward(&loss(&second, 0..2, &[&w])?)?;
        first.finish().map(drop)
    });
}

#[test]
fn gradients_update_once_and_in_their_step() {
    refuses("step 1 of this set after step 2 has begun", |context| {
        let w = weight(context, "w", 1.0, false)?;
        let set = set(context, std::slice::from_ref(&w), trains())?;
        let stale = whole_step(&set, 0, &[&w])?;
        whole_step(&set, 1, &[&w])?;
        let factor = Tensor::from_slice(context.device(), &[2], &[1.0, 0.0])?;
        stale.update(&factor, |_| RULE, |_, _, _| Ok(()))
    });
}

#[test]
fn a_backward_comes_before_the_end_of_its_step() {
    refuses("a backward after the end of its step", |context| {
        let w = weight(context, "w", 1.0, false)?;
        let set = set(context, std::slice::from_ref(&w), trains())?;
        let step = set.begin_step(0, 2)?;
        let late = loss(&step, 0..2, &[&w])?;
        run_backward(&loss(&step, 0..2, &[&w])?)?;
        step.finish()?;
        run_backward(&late)
    });
}

#[test]
fn a_pass_trains_the_parameters_of_its_set_alone() {
    refuses("a parameter of another set", |context| {
        let (w, v) = (
            weight(context, "w", 1.0, false)?,
            weight(context, "v", 1.0, false)?,
        );
        let ours = set(context, &[w], trains())?;
        let _theirs = set(context, std::slice::from_ref(&v), trains())?;
        run_backward(&loss(&ours.begin_step(0, 2)?, 0..2, &[&v])?)
    });
}

#[test]
fn a_parameter_belongs_to_one_set_and_has_one_name() {
    refuses("a part of another set", |context| {
        let w = weight(context, "w", 1.0, false)?;
        let _first = set(context, std::slice::from_ref(&w), trains())?;
        set(context, &[w], trains()).map(drop)
    });
    refuses("w", |context| {
        let twice = [
            weight(context, "w", 1.0, false)?,
            weight(context, "w", 1.0, false)?,
        ];
        set(context, &twice, trains()).map(drop)
    });
}

#[test]
fn a_value_needs_memory_and_a_gradient_a_weight_that_trains() {
    refuses("no memory on this rank", |context| {
        weight(context, "w", 1.0, false)?.value().map(drop)
    });
    refuses("a frozen parameter", |context| {
        let w = weight(context, "w", 1.0, true)?;
        let _set = set(context, std::slice::from_ref(&w), trains())?;
        w.gradient().map(drop)
    });
}

#[test]
fn data_and_pipeline_cut_no_parameter() {
    for axis in [Axis::Data, Axis::Pipeline] {
        refuses(&axis.to_string(), move |context| {
            let layout = Layout::cut(vec![vec![axis]]).unwrap();
            let scope = Scope::new(context);
            Parameter::declare(&scope, "w", &[4], layout, Init::Constant(0.0), false).map(drop)
        });
    }
}

/// An abandoned step, an evaluation in between, two sets in turn: none affects the next step's gradients.
#[test]
fn a_step_that_was_given_up_leaves_nothing_behind() {
    let seen = on("data=2", |context| {
        let w = weight(context, "w", 3.0, false)?;
        let other = weight(context, "v", 5.0, false)?;
        let ours = set(context, std::slice::from_ref(&w), trains())?;
        let theirs = set(context, std::slice::from_ref(&other), trains())?;
        let rows = context.index(Axis::Data)..context.index(Axis::Data) + 1;
        let given_up = ours.begin_step(0, 2)?;
        run_backward(&loss(&given_up, rows.clone(), &[&w])?)?;
        drop(given_up);
        let (first, second) = (ours.begin_step(0, 2)?, theirs.begin_step(0, 2)?);
        run_backward(&loss(&first, rows.clone(), &[&w])?)?;
        run_backward(&loss(&second, rows, &[&other])?)?;
        second.finish()?;
        first.finish()?;
        Ok((w.gradient()?.to_f64()?, other.gradient()?.to_f64()?))
    });
    for found in seen {
        // A mean over 2 rows of 4 numbers, each with gradient 1 from its product with 1.
        assert_eq!(found.unwrap(), (vec![0.25; 4], vec![0.25; 4]));
    }
}

/// Likewise where replicas hold gradients in shards: what was given up is open and never summed. Weights
/// that are used twice in a pass, in one micro-batch alone, and not at all have their gradients too.
#[test]
fn gradients_in_shards_are_those_of_the_step_alone() {
    for reproducible in [Reproducible::Run, Reproducible::Grid] {
        let settings = Settings {
            reproducible,
            ..Settings::default()
        };
        let seen = on_with("data=2", settings, |context| {
            let options = SetOptions {
                sharding: Sharding::Gradients,
                ..trains()
            };
            let [w, twice, unused] = [("w", 3.0), ("twice", 1.0), ("unused", 7.0)]
                .map(|(name, value)| weight(context, name, value, false));
            let (w, twice, unused) = (w?, twice?, unused?);
            let set = set(context, &[w.clone(), twice.clone(), unused], options)?;
            // Two micro-batches of a row on each rank: 0 and 1, then 2 and 3.
            let rank = context.index(Axis::Data);
            let given_up = set.begin_step(0, two_of(4))?;
            for row in [rank, rank + 2] {
                run_backward(&loss(&given_up, row..row + 1, &[&w])?)?;
            }
            drop(given_up);
            let step = set.begin_step(0, two_of(4))?;
            run_backward(&loss(&step, rank..rank + 1, &[&w, &twice, &twice])?)?;
            run_backward(&loss(&step, rank + 2..rank + 3, &[&twice, &twice])?)?;
            step.finish()?;
            let mut found = Vec::new();
            set.read(Part::Gradient, |_, values| {
                found.push(values);
                Ok::<_, tensor::Error>(())
            })?;
            Ok(found)
        });
        for found in seen {
            // A mean over 4 rows of 4 numbers, two of products with 3 x 1 x 1: the last declared first.
            let expected = [vec![0.0; 4], vec![1.0; 4], vec![0.125; 4]];
            assert_eq!(found.unwrap(), expected, "{reproducible}");
        }
    }
}

#[test]
fn gradients_in_shards_have_micro_batches_before_replicas() {
    let refused = on("data=2", |context| {
        let w = weight(context, "w", 1.0, false)?;
        let options = SetOptions {
            sharding: Sharding::Gradients,
            ..trains()
        };
        let set = set(context, std::slice::from_ref(&w), options)?;
        let step = set.begin_step(0, two_of(4))?;
        // A replica's half of the batch, as copies of gradients would have it.
        let half = 2 * context.index(Axis::Data)..2 * context.index(Axis::Data) + 2;
        let text = |found: Option<tensor::Error>| found.map(|error| error.to_string());
        Ok([text(step.pass(half).err()), text(w.gradient().err())])
    });
    for (found, rows) in refused.into_iter().zip(["0..1, 2..3", "1..2, 3..4"]) {
        let [pass, gradient] = found.unwrap().map(|error| error.expect("an error"));
        assert!(pass.contains(rows), "{pass}, needs {rows}");
        assert!(gradient.contains("shards along Data, needs"), "{gradient}");
    }
}

fn two_of(batch: usize) -> RowCut {
    RowCut::new(batch, 2)
}

/// A frozen weight takes effect, keeps its value and has neither gradient nor state.
#[test]
fn a_frozen_weight_stays_as_it_is() {
    on("x=1", |context| {
        let (w, frozen) = (
            weight(context, "w", 3.0, false)?,
            weight(context, "f", 2.0, true)?,
        );
        let set = set(context, &[w.clone(), frozen.clone()], trains())?;
        let gradients = whole_step(&set, 0, &[&w, &frozen])?;
        assert_eq!(w.gradient()?.to_f64()?, [0.5; 4]);
        let mut updated = 0;
        let factor = Tensor::from_slice(context.device(), &[2], &[1.0, 0.0])?;
        gradients.update(
            &factor,
            |_| RULE,
            |_, _, pieces| {
                updated += pieces
                    .iter()
                    .map(|piece| piece.weights.num_elements())
                    .sum::<usize>();
                Ok::<_, tensor::Error>(())
            },
        )?;
        assert_eq!(updated, 4, "the elements that are handed to the optimiser");
        assert_eq!(frozen.value()?.to_f64()?, [2.0; 4]);
        Ok(())
    })
    .remove(0)
    .unwrap();
}
