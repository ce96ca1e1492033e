//! A trainer of one's own: plain vectors, a backward pass by hand, and an optimiser of a few lines. The library brings the ranks,
//! the sums of gradients while backward runs, and shards of the optimiser's state (ZeRO-1). Four ranks end with one rank's weights.
//!
//! `cargo run --release --example 13_plain_slices`

use fascicle::{
    collective::{AxisGroup, GradientReducer, ParameterShards, ReducerOptions},
    launch,
    prelude::*,
};
use std::{collections::HashMap, rc::Rc};

const ROWS: usize = 48;
const HIDDEN: usize = 16;
const STEPS: usize = 300;

/// A row's input, what its hidden units return, and its error.
type Point = (f32, Vec<f32>, f32);
/// A row's share of a gradient; of a unit's.
type OfPoint<'a> = &'a dyn Fn(&Point) -> f32;
type OfUnit<'a> = &'a dyn Fn(&Point, usize) -> f32;

/// A network with one hidden layer, from one number to one number.
struct Network {
    parameters: Vec<(&'static str, Vec<f32>)>,
}

impl Network {
    fn new() -> Network {
        let spread = |index: usize| ((index * 7919) % 101) as f32 / 50.0 - 1.0;
        let parameters = vec![
            ("up", (0..HIDDEN).map(|index| 3.0 * spread(index)).collect()),
            (
                "up.bias",
                (0..HIDDEN).map(|index| spread(index + 40)).collect(),
            ),
            (
                "down",
                (0..HIDDEN).map(|index| 0.5 * spread(index + 80)).collect(),
            ),
            ("down.bias", vec![0.0]),
        ];
        Network { parameters }
    }

    /// Backward over some rows: the gradients of half the mean squared error of all rows, pushed last layer first, each as soon as
    /// it is complete. Returns the rows' share of the loss.
    fn backward(
        &self,
        rows: std::ops::Range<usize>,
        mut push: impl FnMut(&str, Vec<f32>) -> Result<()>,
    ) -> Result<f32> {
        let [up, up_bias, down, down_bias] = [0, 1, 2, 3].map(|index| &self.parameters[index].1);
        let points: Vec<Point> = rows
            .map(|row| {
                let x = row as f32 / ROWS as f32 * 2.0 - 1.0;
                let hidden = |unit: usize| (up[unit] * x + up_bias[unit]).tanh();
                let hidden: Vec<f32> = (0..HIDDEN).map(hidden).collect();
                let y: f32 = hidden.iter().zip(down).map(|(h, w)| h * w).sum();
                (
                    x,
                    hidden,
                    (y + down_bias[0] - (3.0 * x).sin()) / ROWS as f32,
                )
            })
            .collect();
        let sum = |of: OfPoint<'_>| points.iter().map(of).sum::<f32>();
        let each = |of: OfUnit<'_>| {
            (0..HIDDEN)
                .map(|unit| sum(&|point| of(point, unit)))
                .collect::<Vec<f32>>()
        };
        push("down.bias", vec![sum(&|(_, _, error)| *error)])?;
        push(
            "down",
            each(&|(_, hidden, error), unit| error * hidden[unit]),
        )?;
        let slope = |hidden: &[f32], unit: usize| down[unit] * (1.0 - hidden[unit].powi(2));
        push(
            "up.bias",
            each(&|(_, hidden, error), unit| error * slope(hidden, unit)),
        )?;
        push(
            "up",
            each(&|(x, hidden, error), unit| error * slope(hidden, unit) * x),
        )?;
        Ok(sum(&|(_, _, error)| 0.5 * ROWS as f32 * error * error))
    }
}

/// Trains on this rank's rows; returns the weights and the losses of the first and the last step.
fn train(context: &Context) -> Result<(Vec<Vec<f32>>, [f32; 2])> {
    let group = AxisGroup::named(context, "data")?;
    let mut network = Network::new();
    let lengths = network
        .parameters
        .iter()
        .map(|(name, values)| (*name, values.len()));
    let shards = Rc::new(ParameterShards::new(&group, lengths)?);
    // The loss divides by the number of all rows, so gradients are summed and not averaged.
    let options = ReducerOptions {
        average: false,
        shards: Some(shards.clone()),
        ..ReducerOptions::default()
    };
    let mut reducer = GradientReducer::new(&group, options)?;
    let (rank, size) = (group.rank(), group.size());
    let rows = ROWS * rank / size..ROWS * (rank + 1) / size;
    // Momentum exists only for the parameters that this rank owns.
    let mut momentum: HashMap<String, Vec<f32>> = HashMap::new();
    let mut losses = [0.0; 2];
    for step in 0..STEPS {
        let mut loss =
            [network.backward(rows.clone(), |name, gradient| reducer.push(name, gradient))?];
        for gradient in reducer.finish()? {
            let name = gradient.name().to_owned();
            let gradient = gradient.into_vec::<f32>()?;
            let velocity = momentum
                .entry(name.clone())
                .or_insert(vec![0.0; gradient.len()]);
            let (_, values) = network
                .parameters
                .iter_mut()
                .find(|(own, _)| *own == name)
                .expect("its own");
            for ((value, velocity), gradient) in values.iter_mut().zip(velocity).zip(gradient) {
                *velocity = 0.9 * *velocity + gradient;
                *value -= 0.1 * *velocity;
            }
        }
        let parameters = network.parameters.iter_mut();
        let mut slices: Vec<(&str, &mut [f32])> = parameters
            .map(|(name, values)| (*name, values.as_mut_slice()))
            .collect();
        shards.gather(&mut slices)?;
        group.all_reduce(&mut loss, fascicle::tensor::ReduceOp::Sum)?;
        losses[usize::from(step > 0)] = loss[0];
    }
    assert!(
        size == 1 || momentum.len() < network.parameters.len(),
        "no rank has all of the state"
    );
    Ok((
        network
            .parameters
            .into_iter()
            .map(|(_, values)| values)
            .collect(),
        losses,
    ))
}

fn main() -> fascicle::Result<()> {
    let run = |ranks: usize| {
        let degrees = Degrees {
            data: ranks,
            ..Degrees::default()
        };
        launch(
            Grid::new(degrees, AxisOrder::default())?,
            Settings::default(),
            train,
        )
        .map_err(fascicle::Error::from)
    };
    let ranks = launch::num_processes().unwrap_or(4);
    let (alone, together) = (run(1)?, run(ranks)?);
    let (weights, [first, last]) = &alone[0];
    let difference = together
        .iter()
        .flat_map(|(theirs, _)| theirs.iter().flatten().zip(weights.iter().flatten()));
    let difference = difference.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    launch::say(&format!(
        "loss {first:.4} to {last:.6}; {ranks} ranks differ from one by at most {difference:.1e}"
    ));
    assert!(*last < 0.01 * first && difference < 1e-5);
    Ok(())
}
