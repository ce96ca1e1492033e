//! The perceptron of candle's mnist-training on four ranks: the lines marked `//+`, with the first line of the statement that they end,
//! are what data parallelism with sharded optimiser state adds or changes.
//!
//! `cargo run --release --example mlp`, or with `--features mpi` under `mpirun -n 4`.

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Optimizer, VarBuilder, VarMap, linear, loss};
use fascicle_candle::library::{job, parallel::Context}; //+
use fascicle_candle::{AxisGroup, GradStoreReducer, NamedVars, ReducerOptions, Result}; //+

fn train(context: &Context) -> Result<f32> {
    let map = VarMap::new();
    let builder = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
    let up = linear(784, 100, builder.pp("ln1"))?;
    let down = linear(100, 10, builder.pp("ln2"))?;

    let group = AxisGroup::named(context, "data")?; //+
    let vars = NamedVars::of_map(&map)?; //+
    vars.broadcast(&group)?; //+
    let shards = Some(vars.shards(&group)?); //+
    let options = ReducerOptions {
        shards,                      //+
        ..ReducerOptions::default()  //+
    }; //+
    let mut reducer = GradStoreReducer::new(&group, vars, options)?; //+
    let mut optimiser = AdamW::new_lr(reducer.own_vars(), 1e-3)?; //+

    let (images, labels) = batch(group.rank())?; //+
    let mut last = f32::NAN;
    for _step in 0..30 {
        let logits = down.forward(&up.forward(&images)?.relu()?)?;
        let loss = loss::cross_entropy(&logits, &labels)?;
        let mut gradients = loss.backward()?;
        reducer.reduce(&mut gradients)?; //+
        optimiser.step(&gradients)?;
        reducer.gather()?; //+
        last = loss.to_scalar()?;
    }
    Ok(last)
}

/// 16 images of each rank: bars whose place is the label.
fn batch(rank: usize) -> Result<(Tensor, Tensor)> {
    let label = |row: usize| (3 * row + rank) % 10;
    let pixel = |row: usize| move |index: usize| if index / 78 == label(row) { 1f32 } else { 0.0 };
    let pixels: Vec<f32> = (0..16).flat_map(|row| (0..784).map(pixel(row))).collect();
    let labels: Vec<u32> = (0..16).map(|row| label(row) as u32).collect();
    Ok((
        Tensor::from_vec(pixels, (16, 784), &Device::Cpu)?,
        Tensor::new(labels, &Device::Cpu)?,
    ))
}

fn main() -> Result<()> {
    let losses = job().grid("data=4").expect("a grid").run(train)?; //+
    println!("losses of the ranks at the end: {losses:?}");
    assert!(losses.iter().all(|loss| *loss < 0.5));
    Ok(())
}
