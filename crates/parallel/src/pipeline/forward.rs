//! Running a model forward only: validation and generation.

use super::{Output, Stages, stage::Stage};
use crate::{Context, DTensor, Purpose, counters::Subject};
use ::tensor::{Error, Result, Tensor};
use grid::Axis;

/// Runs the micro-batches forward through all stages, and gives the model's outputs on the last one, in order.
///
/// Each chunk takes all micro-batches before the next chunk begins.
///
/// # Errors
/// Those of layers and messages.
pub fn forward(
    context: &Context,
    num_chunks: usize,
    num_micro_batches: usize,
    model: &dyn Stages,
) -> Result<Vec<Output>> {
    let device = context.device().clone();
    device.without_gradients(|| {
        let nothing = Tensor::zeros(&device, ::tensor::DType::F32, &[1])?;
        let mut stage = Stage::new(context, model, num_chunks, &nothing)?;
        let mut outputs = Vec::new();
        for chunk in 0..num_chunks {
            for micro_batch in 0..num_micro_batches {
                outputs.extend(pass(
                    &mut stage,
                    context,
                    model,
                    (micro_batch, chunk),
                    num_chunks,
                )?);
            }
        }
        Ok(outputs)
    })
}

fn pass(
    stage: &mut Stage<'_>,
    context: &Context,
    model: &dyn Stages,
    (micro_batch, chunk): (usize, usize),
    num_chunks: usize,
) -> Result<Option<Output>> {
    let (index, stages) = (
        context.index(Axis::Pipeline),
        context.degree(Axis::Pipeline),
    );
    let first = index == 0 && chunk == 0;
    if !first && stages > 1 {
        stage.recv_activation(micro_batch, chunk, (index + stages - 1) % stages)?;
    }
    let input = if first {
        None
    } else {
        stage.input((micro_batch, chunk))?.0
    };
    match model.forward(micro_batch, chunk, input)? {
        Output::Activation(_) if index + 1 == stages && chunk + 1 == num_chunks => {
            Err(Error::invalid(
                "forward",
                "an activation from the last chunk",
                "a loss or logits",
            ))
        }
        Output::Activation(out) if stages == 1 => {
            stage.hand_over(micro_batch, chunk + 1, out.tensor().clone());
            Ok(None)
        }
        Output::Activation(out) => send(stage, context, &out, (index + 1) % stages).map(|()| None),
        output => Ok(Some(output)),
    }
}

fn send(stage: &Stage<'_>, context: &Context, out: &DTensor, to: usize) -> Result<()> {
    let (group, stream) = stage.channel(Purpose::Activation, "send activations")?;
    group.send(context, Subject::Pipeline, &stream, out.tensor(), to)
}
