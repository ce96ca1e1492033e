//! For examples that time a binding: the same reduction without it, of plain vectors.

use crate::library::{
    Result,
    collective::{AxisGroup, GradientReducer, ReducerOptions},
};

/// Sums gradients of these lengths with the reducer that the bindings call.
pub fn reducer<'a>(
    group: &AxisGroup,
    lengths: &'a [usize],
) -> Result<impl FnMut() -> Result<()> + 'a> {
    let options = ReducerOptions {
        average: false,
        ..ReducerOptions::default()
    };
    let mut reducer = GradientReducer::new(group, options)?;
    let mut gradients: Vec<(String, Vec<f32>)> = lengths
        .iter()
        .enumerate()
        .map(|(index, &length)| (format!("p{index}"), vec![0.0; length]))
        .collect();
    Ok(move || {
        for (name, gradient) in &mut gradients {
            reducer.push(name, std::mem::take(gradient))?;
        }
        for (reduced, (_, gradient)) in reducer.finish()?.into_iter().zip(&mut gradients) {
            *gradient = reduced.into_vec()?;
        }
        Ok(())
    })
}
