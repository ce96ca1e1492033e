//! The model: an embedding, halves of blocks, and a head.

use super::{
    GptConfig,
    block::{Attention, Mlp, norm},
};
use nn::{Builder, Embedding, Linear, Norm};
use parallel::{
    DTensor, Init, Input, Model, Pass, Result, Wires,
    layers::{self, Loss},
};
use std::{cell::RefCell, ops::Range};
use tensor::Tensor;
use train::checkpoint::foreign::rounded;

/// A decoder-only transformer that reads the columns `inputs` and `targets`, sequences of tokens, and those of several samples
/// in a row, where a batch has them ([`Samples`](train::data::Samples)).
///
/// Segment 0 is the embedding. Then follow attention and MLP of each block, and last the head, which outputs
/// the wire `logits`. Where the halves of a block read the same values, attention hands on what it has read as the wire `x`, beside
/// its own sum with it, the wire `attended`.
#[derive(Debug)]
pub struct Gpt {
    config: GptConfig,
    token: Embedding,
    position: Option<Embedding>,
    // The positions of the tokens, for the shape of the last micro-batch.
    places: RefCell<Option<Tensor>>,
    blocks: Vec<(Attention, Mlp)>,
    norm: Norm,
    head: Linear,
}

impl Gpt {
    /// Declares the layers of a model.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) for a size of 0.
    pub fn new(builder: &Builder, config: &GptConfig) -> Result<Gpt> {
        let init = Init::Normal(config.init_deviation);
        let (rows, hidden) = (config.padded_vocabulary(), config.hidden);
        let token = builder.embedding("embedding.token", rows, hidden, init)?;
        let positions = || builder.positions("embedding.position", config.context, hidden, init);
        let position = (!config.design().is_rotary()).then(positions).transpose()?;
        let block = |index: usize| {
            let attention = Attention::new(&builder.segment(1 + 2 * index), config, index)?;
            let mlp = Mlp::new(&builder.segment(2 + 2 * index), config, index)?;
            Ok((attention, mlp))
        };
        let blocks = (0..config.layers).map(block).collect::<Result<_>>()?;
        let last = builder.segment(config.num_segments() - 1);
        let norm = norm(&last, "final_norm", config)?;
        let head = match config.tied_head {
            true => last.linear_over(&token),
            false => last.linear_over(&last.embedding("head.weight", rows, hidden, init)?),
        };
        Ok(Gpt {
            config: config.clone(),
            token,
            position,
            places: RefCell::default(),
            blocks,
            norm,
            head,
        })
    }

    fn embed(&self, input: &Input<'_>) -> Result<DTensor> {
        let (pass, ids) = (input.pass(), input.tensor("inputs")?);
        let mut x = self.token.forward(pass, ids)?;
        if self.config.design().scales_embedding {
            // The factor has the type of the model, as in the original.
            let factor = (self.config.hidden as f64).sqrt();
            x = x.scale(rounded(x.dtype(), &[factor])[0])?;
        }
        if let Some(position) = &self.position {
            let places = match input.get("places") {
                Some(places) => places.clone(),
                None => self.places(pass, ids)?,
            };
            x = x.add(&position.forward(pass, &places)?)?;
        }
        x.dropout("embedding", self.config.dropout, ids.columns())
    }

    fn capped(&self, logits: DTensor) -> Result<DTensor> {
        match self.config.logit_cap {
            0.0 => Ok(logits),
            cap => logits.scale(1.0 / cap)?.tanh()?.scale(cap),
        }
    }

    // Where the documents of its sequences start, if they hold several.
    fn documents(&self, input: &Input<'_>) -> Result<Option<Tensor>> {
        if let Some(starts) = input.get("documents") {
            return Ok(Some(starts.clone()));
        }
        let end = self.config.document_end.0;
        end.map(|end| layers::document_starts(input.pass(), input.tensor("inputs")?, end))
            .transpose()
    }

    // Counted on the host and copied once, because all micro-batches have one shape, except those of a
    // validation.
    fn places(&self, pass: &Pass, ids: &Tensor) -> Result<Tensor> {
        if let Some(end) = self.config.document_end.0 {
            return layers::places_in_documents(pass, ids, end);
        }
        if pass.is_incremental() {
            return layers::places(pass, ids);
        }
        let mut places = self.places.borrow_mut();
        if let Some(places) = places
            .as_ref()
            .filter(|places| places.shape() == ids.shape())
        {
            return Ok(places.clone());
        }
        Ok(places.insert(layers::places(pass, ids)?).clone())
    }
}

impl Model for Gpt {
    fn num_segments(&self) -> usize {
        self.config.num_segments()
    }

    /// Flop per token. The embedding has no matmul; its look-up and reduction count as 8 operations per
    /// element.
    fn cost(&self, segment: usize) -> Option<f64> {
        let config = &self.config;
        let (h, q, kv) = (config.hidden, config.query_width(), config.key_width());
        let matrices = config.design().mlp_matrices();
        // Scores and weighted sums.
        let attention = |block| 4.0 * q as f64 * config.attended(block);
        Some(match segment {
            0 => (8 * h) as f64,
            _ if segment + 1 == self.num_segments() => (2 * h * config.padded_vocabulary()) as f64,
            _ if segment % 2 == 1 => (4 * h * q + 4 * h * kv) as f64 + attention(segment / 2),
            _ => (2 * matrices * h * config.mlp_hidden()) as f64,
        })
    }

    /// The embedding, the two halves of each block, and the head.
    fn kind(&self, segment: usize) -> &str {
        match segment {
            0 => "embedding",
            _ if segment + 1 == self.num_segments() => "head",
            _ if segment % 2 == 1 => "attention",
            _ => "mlp",
        }
    }

    fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
        if segment == 0 {
            return Ok(Wires::of("x", self.embed(input)?));
        }
        let x = wires.take("x")?;
        if segment + 1 == self.num_segments() {
            let normed = self.norm.forward(&layers::newest(x)?)?;
            let logits = self.head.forward(&normed)?;
            return Ok(Wires::of("logits", self.capped(logits)?));
        }
        let (attention, mlp) = &self.blocks[(segment - 1) / 2];
        let is_parallel = self.config.parallel_residual;
        Ok(match segment % 2 {
            1 => {
                let attended = attention.forward(&x, self.documents(input)?.as_ref())?;
                match is_parallel {
                    true => Wires::of("attended", attended).with("x", x),
                    false => Wires::of("x", attended),
                }
            }
            _ if is_parallel => Wires::of("x", mlp.forward(&x, &wires.take("attended")?)?),
            _ => Wires::of("x", mlp.forward(&x, &x)?),
        })
    }

    fn routes(&self) -> Vec<parallel::Route> {
        let last = self.num_segments() - 1;
        let names = |segment| match segment {
            _ if segment == last => &["logits"][..],
            _ if segment % 2 == 1 && self.config.parallel_residual => &["attended", "x"],
            _ => &["x"],
        };
        let routes = |segment| {
            let route =
                move |name: &&'static str| parallel::Route::new(*name, segment, segment + 1);
            names(segment).iter().map(route)
        };
        (0..=last).flat_map(routes).collect()
    }

    fn objective(&self, input: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        let logits = wires.take("logits")?;
        let loss = logits.cross_entropy(input.tensor("targets")?, self.config.vocabulary)?;
        match input.get("loss_weight") {
            Some(weight) => loss.scale_by(weight),
            None => Ok(loss),
        }
    }

    fn is_incremental(&self) -> bool {
        true
    }

    /// Block by block.
    fn recomputed(&self) -> Vec<Range<usize>> {
        (0..self.config.layers)
            .map(|block| 1 + 2 * block..3 + 2 * block)
            .collect()
    }
}
