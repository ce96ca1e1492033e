//! The part of a model that one pipeline stage holds.

use super::{
    Family, GptConfig, Segment,
    block::{Attention, Mlp, norm},
    segments,
    step::MicroBatch,
};
use crate::{Builder, Embedding, Linear, Model, Norm, model::with_ties};
use grid::Axis;
use parallel::{
    Context, DTensor, Error, Init, Result,
    data::{SetOptions, Tied},
    pipeline::schedule::{assign, balance},
    tensor::recompute,
};
use std::{cell::RefCell, ops::Range, rc::Rc};
use tensor::Tensor;

/// The chunks of a model that this rank's stage runs.
#[derive(Clone, Debug)]
pub struct Gpt {
    pub(super) config: GptConfig,
    pub(super) context: Context,
    chunks: Vec<Vec<Piece>>,
}

#[derive(Clone, Debug)]
enum Piece {
    Embedding(Tables),
    Attention(Rc<Attention>),
    Mlp(Rc<Mlp>),
    Head(Norm, Linear),
}

#[derive(Clone, Debug)]
struct Tables {
    token: Embedding,
    position: Option<Embedding>,
    // The tokens' places, of the last micro-batch's shape.
    places: Rc<RefCell<Option<Tensor>>>,
}

impl Gpt {
    /// Builds this rank's part of a model that is cut in `num_chunks` chunks a stage, with its parameters.
    ///
    /// # Errors
    /// [`Error::Invalid`] for sizes that make no model, or more stages than parts; [`Error::OutOfMemory`].
    pub fn build(
        context: &Context,
        config: &GptConfig,
        num_chunks: usize,
        options: SetOptions,
    ) -> Result<Model<Gpt>> {
        config.check()?;
        let ranges = Gpt::cut(config, context.degree(Axis::Pipeline), num_chunks)?;
        let own = &ranges[context.index(Axis::Pipeline)];
        let tied = ties(context, config);
        with_ties(context, options, &tied, |builder| {
            Gpt::pieces(builder, config, own)
        })
    }

    /// Which segments each stage holds, chunk by chunk, so that the largest cost of a chunk is least.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more chunks in all than segments.
    pub fn cut(
        config: &GptConfig,
        num_stages: usize,
        num_chunks: usize,
    ) -> Result<Vec<Vec<Range<usize>>>> {
        let costs: Vec<f64> = segments(config).into_iter().map(|(_, cost)| cost).collect();
        let cut = balance(&costs, num_stages * num_chunks)
            .and_then(|parts| assign(&parts, num_stages, num_chunks));
        cut.map_err(|error| {
            let found = format!("{num_stages} stages of {num_chunks} chunks");
            Error::invalid(
                "pipeline",
                found,
                format!("at most {} parts in all ({error})", config.num_segments()),
            )
        })
    }

    fn pieces(builder: &Builder, config: &GptConfig, own: &[Range<usize>]) -> Result<Gpt> {
        let all = segments(config);
        let mut tables = None;
        let mut chunks = Vec::with_capacity(own.len());
        for range in own {
            let segments = all[range.clone()].iter();
            let chunk =
                segments.map(|(segment, _)| Gpt::piece(builder, config, *segment, &mut tables));
            chunks.push(chunk.collect::<Result<Vec<_>>>()?);
        }
        Ok(Gpt {
            config: config.clone(),
            context: builder.context().clone(),
            chunks,
        })
    }

    fn piece(
        builder: &Builder,
        config: &GptConfig,
        segment: Segment,
        tables: &mut Option<Embedding>,
    ) -> Result<Piece> {
        let init = Init::Normal(config.init_deviation);
        let table =
            |name: &str| builder.embedding(name, config.padded_vocabulary(), config.hidden, init);
        Ok(match segment {
            Segment::Embedding => {
                let token = table("embedding.token")?;
                *tables = Some(token.clone());
                let positions =
                    || builder.positions("embedding.position", config.context, config.hidden, init);
                let position = (config.family == Family::Gpt2)
                    .then(positions)
                    .transpose()?;
                Piece::Embedding(Tables {
                    token,
                    position,
                    places: Rc::default(),
                })
            }
            Segment::Attention(index) => {
                Piece::Attention(Rc::new(Attention::new(builder, config, index)?))
            }
            Segment::Mlp(index) => Piece::Mlp(Rc::new(Mlp::new(builder, config, index)?)),
            Segment::Head => {
                let norm = norm(builder, "final_norm", config)?;
                // On the stage that also holds the embedding a tied head is the same parameter, elsewhere a copy.
                let head = match (config.tied_head, &*tables) {
                    (true, Some(token)) => token.clone(),
                    (true, None) => table("embedding.token")?,
                    (false, _) => table("head.weight")?,
                };
                Piece::Head(norm, Linear::over_table(&head))
            }
        })
    }

    /// Sizes and choices.
    pub fn config(&self) -> &GptConfig {
        &self.config
    }

    /// Chunks on this stage.
    pub fn num_chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Runs a chunk; the first one reads the micro-batch's tokens. What comes out of the last one are logits.
    pub(super) fn forward(
        &self,
        chunk: usize,
        input: Option<DTensor>,
        batch: &MicroBatch,
    ) -> Result<(DTensor, bool)> {
        let pieces = &self.chunks[chunk];
        let mut x = input;
        let mut index = 0;
        while index < pieces.len() {
            let (out, taken) = self.advance(&pieces[index..], x, batch)?;
            x = Some(out);
            index += taken;
        }
        let is_last = matches!(pieces.last(), Some(Piece::Head(..)));
        x.map(|x| (x, is_last))
            .ok_or_else(|| Error::invalid("model", "a chunk without layers", "at least one"))
    }

    // Runs the next piece, or the next block as one where it is recomputed; gives how many pieces that were.
    fn advance(
        &self,
        pieces: &[Piece],
        x: Option<DTensor>,
        batch: &MicroBatch,
    ) -> Result<(DTensor, usize)> {
        if let Piece::Embedding(tables) = &pieces[0] {
            return Ok((self.embed(tables, &batch.inputs)?, 1));
        }
        let x = x.ok_or_else(|| Error::invalid("model", "no input for an inner layer", "one"))?;
        match pieces {
            [Piece::Attention(attention), Piece::Mlp(mlp), ..] if self.config.recompute => {
                let (attention, mlp) = (attention.clone(), mlp.clone());
                Ok((
                    recompute(&x, Rc::new(move |x| mlp.forward(&attention.forward(x)?)))?,
                    2,
                ))
            }
            [Piece::Attention(attention), ..] if self.config.recompute => {
                let attention = attention.clone();
                Ok((recompute(&x, Rc::new(move |x| attention.forward(x)))?, 1))
            }
            [Piece::Mlp(mlp), ..] if self.config.recompute => {
                let mlp = mlp.clone();
                Ok((recompute(&x, Rc::new(move |x| mlp.forward(x)))?, 1))
            }
            [Piece::Attention(attention), ..] => Ok((attention.forward(&x)?, 1)),
            [Piece::Mlp(mlp), ..] => Ok((mlp.forward(&x)?, 1)),
            [Piece::Head(norm, head), ..] => Ok((head.forward(&norm.forward(&x)?)?, 1)),
            _ => Err(Error::invalid(
                "model",
                "an embedding within the layers",
                "one at the start",
            )),
        }
    }

    fn embed(&self, tables: &Tables, ids: &Tensor) -> Result<DTensor> {
        let mut x = tables.token.forward(&self.context, ids)?;
        let (rows, sequence) = (ids.num_rows(), ids.columns());
        if let Some(position) = &tables.position {
            let places = tables.places(ids, [rows, sequence])?;
            x = x.add(&position.forward(&self.context, &places)?)?;
        }
        x.dropout("embedding", self.config.dropout, sequence)
    }
}

impl Tables {
    // Counted on the host and copied once: micro-batches have one shape, but for those of a validation.
    fn places(&self, ids: &Tensor, shape: [usize; 2]) -> Result<Tensor> {
        let mut places = self.places.borrow_mut();
        if let Some(places) = places.as_ref().filter(|places| places.shape() == shape) {
            return Ok(places.clone());
        }
        let [rows, sequence] = shape;
        let numbers: Vec<u32> = (0..rows).flat_map(|_| 0..sequence as u32).collect();
        Ok(places
            .insert(Tensor::from_slice(ids.device(), &shape, &numbers)?)
            .clone())
    }
}

// With several stages, a tied head's table lives on the first and the last one.
fn ties(context: &Context, config: &GptConfig) -> Vec<Tied> {
    let stages = context.degree(Axis::Pipeline);
    if !config.tied_head || stages == 1 {
        return Vec::new();
    }
    let line = context.members(&[Axis::Pipeline]);
    vec![Tied {
        name: "embedding.token".into(),
        members: vec![line[0], line[stages - 1]],
    }]
}
