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

type Parameters = Vec<(String, Vec<f32>)>;

/// A network with one hidden layer, from one number to one number.
fn network() -> Parameters {
    let spread = |index: usize| ((index * 7919) % 101) as f32 / 50.0 - 1.0;
    let values = |scale: f32, first: usize| {
        let index = first..first + HIDDEN;
        index.map(|index| scale * spread(index)).collect()
    };
    vec![
        ("up".into(), values(3.0, 0)),
        ("up.bias".into(), values(1.0, 40)),
        ("down".into(), values(0.5, 80)),
        ("down.bias".into(), vec![0.0]),
    ]
}

/// Backward over some rows: the gradients of half the mean squared error of all rows, pushed last layer first, each as soon as
/// it is complete. Returns the rows' share of the loss.
fn backward(
    network: &Parameters,
    rows: std::ops::Range<usize>,
    mut push: impl FnMut(&str, Vec<f32>) -> Result<()>,
) -> Result<f32> {
    let [up, up_bias, down, down_bias] = [0, 1, 2, 3].map(|index| &network[index].1);
    let (mut points, mut loss) = (Vec::new(), 0.0);
    let (mut of_down, mut of_down_bias) = (vec![0.0; HIDDEN], vec![0.0]);
    for row in rows {
        let x = row as f32 / ROWS as f32 * 2.0 - 1.0;
        let hidden = |unit: usize| (up[unit] * x + up_bias[unit]).tanh();
        let hidden: Vec<f32> = (0..HIDDEN).map(hidden).collect();
        let y: f32 = hidden.iter().zip(down).map(|(h, w)| h * w).sum();
        let error = (y + down_bias[0] - (3.0 * x).sin()) / ROWS as f32;
        loss += 0.5 * ROWS as f32 * error * error;
        of_down_bias[0] += error;
        (0..HIDDEN).for_each(|unit| of_down[unit] += error * hidden[unit]);
        points.push((x, hidden, error));
    }
    push("down.bias", of_down_bias)?;
    push("down", of_down)?;
    let (mut of_up, mut of_up_bias) = (vec![0.0; HIDDEN], vec![0.0; HIDDEN]);
    for (x, hidden, error) in points {
        for unit in 0..HIDDEN {
            let slope = error * down[unit] * (1.0 - hidden[unit].powi(2));
            of_up_bias[unit] += slope;
            of_up[unit] += slope * x;
        }
    }
    push("up.bias", of_up_bias)?;
    push("up", of_up)?;
    Ok(loss)
}

/// Trains on this rank's rows; returns the weights and the losses of the first and the last step.
fn train(context: &Context) -> Result<(Parameters, [f32; 2])> {
    let group = AxisGroup::named(context, "data")?;
    let mut network = network();
    let lengths = network
        .iter()
        .map(|(name, values)| (name.as_str(), values.len()));
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
        let push = |name: &str, gradient| reducer.push(name, gradient);
        let mut loss = [backward(&network, rows.clone(), push)?];
        for gradient in reducer.finish()? {
            let name = gradient.name().to_owned();
            let gradient = gradient.into_vec::<f32>()?;
            let own = network.iter_mut().find(|(own, _)| *own == name);
            let (_, values) = own.expect("a gradient is that of a parameter");
            let velocity = momentum.entry(name).or_insert(vec![0.0; gradient.len()]);
            for ((value, velocity), gradient) in values.iter_mut().zip(velocity).zip(gradient) {
                *velocity = 0.9 * *velocity + gradient;
                *value -= 0.1 * *velocity;
            }
        }
        let slices = network
            .iter_mut()
            .map(|(name, values)| (name.as_str(), &mut values[..]));
        shards.gather(&mut slices.collect::<Vec<(&str, &mut [f32])>>())?;
        group.all_reduce(&mut loss, fascicle::tensor::ReduceOp::Sum)?;
        losses[usize::from(step > 0)] = loss[0];
    }
    let has_all = momentum.len() == network.len();
    assert!(size == 1 || !has_all, "no rank has all of the state");
    Ok((network, losses))
}

fn main() -> fascicle::Result<()> {
    let run = |data: usize| {
        let degrees = Degrees {
            data,
            ..Degrees::default()
        };
        let grid = Grid::new(degrees, AxisOrder::default())?;
        launch(grid, Settings::default(), train).map_err(fascicle::Error::from)
    };
    let ranks = launch::num_processes().unwrap_or(4);
    let (alone, together) = (run(1)?, run(ranks)?);
    let (weights, [first, last]) = &alone[0];
    let all = |network: &Parameters| -> Vec<f32> {
        let values = network.iter().flat_map(|(_, values)| values);
        values.copied().collect()
    };
    let pairs = together
        .iter()
        .flat_map(|(theirs, _)| all(theirs).into_iter().zip(all(weights)));
    let difference = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    launch::say(&format!(
        "loss {first:.4} to {last:.6}; {ranks} ranks differ from one by at most {difference:.1e}"
    ));
    assert!(*last < 0.01 * first && difference < 1e-5);
    Ok(())
}
