//! Y = X W + b, optionally with GELU.

use super::{Linear, LinearKind, backward::Saved};
use crate::{
    Error, Pass,
    counters::Subject,
    layers::{
        DTensor, Weight,
        spread::{Share, Spread},
    },
    sums::{Product, ProductSum},
    work::{LinearWork, WeightUse},
};
use grid::Axis;
use tensor::{Result, Tensor, Var, ops, ops::UnaryOp};

/// Applies layers of one kind that read the same features, such as queries, keys and values.
///
/// # Shapes
/// `x`: rows x in/axis, redistributed first if it has another cut. Each result: rows x out/axis; its vectors are spread
/// over X under sequence parallelism, if the layers sum over X.
/// # Cost
/// Per layer, the table at the top of the [module](super); the gradient of `x` is summed locally and reduced
/// once.
/// # Errors
/// [`Error::Invalid`] when features do not fit a weight, and for a parameter without memory on this rank; those of the
/// collectives.
pub fn linear(x: &DTensor, layers: &[&Linear]) -> Result<Vec<DTensor>> {
    linear_seeing(x, layers, |_, _| Ok(()))
}

/// As [`linear`]; `see` gets the index and the weight of each layer before it is multiplied.
///
/// # Errors
/// As there; those of `see`.
pub fn linear_seeing(
    x: &DTensor,
    layers: &[&Linear],
    see: impl FnMut(usize, &Weight) -> Result<()>,
) -> Result<Vec<DTensor>> {
    layers.iter().try_for_each(|layer| reads(x, layer))?;
    note(x, layers, false);
    multiplied(x, layers, see)
}

// What has been noted.
fn multiplied(
    x: &DTensor,
    layers: &[&Linear],
    mut see: impl FnMut(usize, &Weight) -> Result<()>,
) -> Result<Vec<DTensor>> {
    let Some(first) = layers.first() else {
        return Ok(Vec::new());
    };
    let pass = x.pass().clone();
    let x = x.redistribute(Some(first.kind.reads()), first.weight.name())?;
    let input = LinearInput::of(&x)?;
    let mut saved = Saved::new(&x, &input, layers);
    let mut outputs = Vec::with_capacity(layers.len());
    for (index, layer) in layers.iter().enumerate() {
        let weight = Weight::of(&pass, layer, &input.whole)?;
        see(index, &weight)?;
        outputs.push(multiply(&pass, (layer, weight), &input, &mut saved)?);
    }
    let keeps = saved.trains();
    let vars = Var::record(
        "linear",
        &[x.held_var()],
        outputs,
        keeps,
        move |gradients| saved.backward(gradients),
    );
    vars.into_iter()
        .zip(layers)
        .map(|(var, layer)| wrap(&pass, var, layer, &input))
        .collect()
}

/// `out + factor * Y`, where Y is what a layer makes of `x` and has the features of `out`.
///
/// # Shapes
/// `x` as in [`linear`]; `out` and the result as the results there.
/// # Cost
/// As there, and one pass over Y, which becomes the sum.
/// # Errors
/// As there; [`Error::Invalid`] if `out` has another shape.
pub fn linear_onto(out: &DTensor, x: &DTensor, layer: &Linear, factor: f64) -> Result<DTensor> {
    reads(x, layer)?;
    note(x, &[layer], true);
    let product = multiplied(x, &[layer], |_, _| Ok(()))?.swap_remove(0);
    let product = out.beside("linear_onto", &product)?;
    let sum = product.held().clone();
    ops::axpby(1.0, out.held(), factor, &sum)?;
    let inputs = [out.held_var(), product.held_var()];
    let wanted = inputs.map(Var::wants_gradient);
    let var = Var::record_one("linear_onto", &inputs, sum, false, move |d_sum| {
        let d_product = || {
            let scaled = Tensor::empty(d_sum.device(), d_sum.dtype(), d_sum.shape())?;
            ops::axpby(factor, &d_sum, 0.0, &scaled)?;
            Ok::<_, Error>(scaled)
        };
        let d_product = wanted[1].then(d_product).transpose()?;
        Ok(vec![wanted[0].then_some(d_sum), d_product])
    });
    Ok(product.unnoted(var))
}

/// GELU (by its tanh approximation) of a layer's result.
///
/// # Shapes
/// As [`linear`].
/// # Cost
/// As there. If the contracted axis has one rank, bias and GELU are part of the GEMM where the device's library
/// supports that; otherwise they follow the reduction.
/// # Errors
/// As [`linear`].
pub fn linear_gelu(x: &DTensor, layer: &Linear) -> Result<DTensor> {
    let pass = x.pass().clone();
    reads(x, layer)?;
    note(x, &[layer], false);
    let x = x.redistribute(Some(layer.kind.reads()), layer.weight.name())?;
    let input = LinearInput::of(&x)?;
    let mut saved = Saved::new(&x, &input, &[layer]);
    let is_sum = pass.context().degree(layer.kind.reads()) > 1 || input.runs(layer.kind).is_some();
    let weight = Weight::of(&pass, layer, &input.whole)?;
    let (out, sum) = match weight.as_block().filter(|_| !is_sum) {
        Some(block) => {
            let bias = layer.bias.as_ref().map(|bias| bias.value()).transpose()?;
            let transpose = layer.storage.forward();
            let parts = ops::matmul_gelu(&input.whole, block, transpose, bias.as_ref())?;
            saved.keep(layer, &weight);
            drop(weight);
            parts
        }
        None => {
            let sum = multiply(&pass, (layer, weight), &input, &mut saved)?;
            (ops::unary(UnaryOp::Gelu, &sum)?, sum)
        }
    };
    let keeps = saved.trains();
    let var = Var::record_one("linear_gelu", &[x.held_var()], out, keeps, move |d_out| {
        let d_sum = ops::unary_backward(UnaryOp::Gelu, &sum, d_out)?;
        // Dropped before the GEMMs allocate memory.
        drop(sum);
        saved.backward(vec![Some(d_sum)])
    });
    let out = wrap(&pass, var, layer, &input)?;
    if let Some(ledger) = pass.ledger() {
        ledger.elements(out.place(), out.held().num_elements());
    }
    Ok(out)
}

/// What the layers multiply: all vectors of this rank's tokens.
pub(super) struct LinearInput {
    pub(super) whole: Tensor,
    // How the vectors of the input are spread over Context.
    tokens: Option<Spread>,
    // How those of a sum over X are.
    runs: Option<Spread>,
}

impl LinearInput {
    fn of(x: &DTensor) -> Result<LinearInput> {
        let context = x.context();
        let whole = match x.spread() {
            Some(spread) => {
                let compute = context.device().compute();
                spread.gather_runs(context, (Subject::Linear, &compute), x.held())?
            }
            None => x.held().clone(),
        };
        let Share { tokens, .. } = x.share();
        let of = |runs| Spread::of(context, x.leading(), Share { tokens, runs });
        Ok(LinearInput {
            whole,
            tokens: of(false),
            runs: of(x.pass().spreads_runs()).filter(|spread| spread.share().runs),
        })
    }

    /// How the vectors of a result are spread.
    pub(super) fn outputs(&self, kind: LinearKind) -> Option<&Spread> {
        self.runs(kind).or(self.tokens.as_ref())
    }

    /// The same if it is a sum over X that leaves runs of its vectors.
    pub(super) fn runs(&self, kind: LinearKind) -> Option<&Spread> {
        self.runs.as_ref().filter(|_| kind.reads() == Axis::X)
    }
}

// The bias is added once, after the reduction; every rank of the contracted axis adds the same.
fn multiply(
    pass: &Pass,
    (layer, weight): (&Linear, Weight),
    input: &LinearInput,
    saved: &mut Saved,
) -> Result<Tensor> {
    let (context, axis, x) = (pass.context(), layer.kind.reads(), &input.whole);
    let transpose = layer.storage.forward();
    let bias = layer.bias.as_ref().map(|bias| bias.value()).transpose()?;
    let runs = input.runs(layer.kind);
    let is_sum = context.degree(axis) > 1 || runs.is_some();
    let out = match (&bias, weight.as_block()) {
        (Some(bias), Some(block)) if !is_sum => ops::matmul_bias(x, block, transpose, bias)?,
        _ => {
            let compute = context.device().compute();
            let mut sum = ProductSum::new(context, axis, compute, runs)?;
            sum.add(&Product {
                a: x,
                b: &weight,
                transpose,
                len: layer.in_features(),
            })?;
            let out = sum.finish()?;
            let out = out.expect("a product was added");
            bias.map_or(Ok(()), |bias| ops::add_bias(&out, &bias))?;
            out
        }
    };
    saved.keep(layer, &weight);
    Ok(out)
}

fn wrap(pass: &Pass, var: Var, layer: &Linear, input: &LinearInput) -> Result<DTensor> {
    let place = (layer.out_features, Some(layer.kind.emits()));
    DTensor::spread_over(pass, var, place, input.outputs(layer.kind).cloned())
}

fn note(x: &DTensor, layers: &[&Linear], onto: bool) {
    let (Some(ledger), Some(first)) = (x.pass().ledger(), layers.first()) else {
        return;
    };
    ledger.linear(LinearWork {
        inputs: x.features(),
        outputs: layers.iter().map(|layer| layer.out_features).collect(),
        weights: layers
            .iter()
            .map(|layer| WeightUse::of(&layer.weight))
            .collect(),
        reads: first.kind.reads(),
        emits: first.kind.emits(),
        vectors: x.leading().iter().product(),
        spread: x.share().runs,
        tokens: x.share().tokens,
        wants_input: x.held_var().wants_gradient(),
        onto,
    });
}

// Checked here, with the layer's name, because the matmul below knows only this rank's shapes.
fn reads(x: &DTensor, layer: &Linear) -> Result<()> {
    let (found, needed) = (x.features(), layer.in_features());
    match found == needed {
        true => Ok(()),
        false => Err(Error::invalid(
            layer.weight.name(),
            format!("{found} features"),
            format!("{needed}, which the layer reads"),
        )),
    }
}
