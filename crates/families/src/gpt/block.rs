//! A transformer block in two halves, each with its norm and residual.

use super::{Activation, GptConfig, RopeScaling};
use nn::{Builder, HeadNorm, Linear, LinearKind, LinearOptions, Norm};
use parallel::{
    DTensor, Error, Init, Result,
    layers::{AttentionOptions, attention, norm::NormKind, rope},
};
use tensor::{
    Tensor,
    ops::attention::{RotaryFrequencies, RotaryHead},
};

/// x + output(attention(norm(x))), where the family has it with another norm of what is added.
#[derive(Debug)]
pub(super) struct Attention {
    norm: Norm,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    // Of what is added to the residual.
    post_norm: Option<Norm>,
    // The norms of queries and keys.
    head_norms: Option<[HeadNorm; 2]>,
    name: String,
    head_size: usize,
    window: Option<usize>,
    score_cap: Option<f64>,
    dropout: f64,
    // By which queries are multiplied, if scores are divided by another root than that of the head size.
    query_scale: Option<f64>,
    rotary: Option<(RotaryHead, RotaryFrequencies)>,
}

impl Attention {
    pub(super) fn new(builder: &Builder, config: &GptConfig, index: usize) -> Result<Attention> {
        let block = builder.scope(&format!("blocks.{index}"));
        let scope = block.scope("attention");
        let (h, q, kv) = (config.hidden, config.query_width(), config.key_width());
        let into = LinearOptions {
            bias: config.has_qkv_bias(),
            ..options(config, LinearKind::Normal, false)
        };
        let out = options(config, LinearKind::Transposed, true);
        let head_norm = |name: &str| {
            let (size, epsilon) = (config.head_size(), config.norm_epsilon);
            match config.design().norm {
                NormKind::RmsOffset => scope.head_norm_offset(name, size, epsilon),
                NormKind::Layer | NormKind::Rms => scope.head_norm(name, size, epsilon),
            }
        };
        let head_norms = config
            .qk_norm
            .then(|| Ok::<_, Error>([head_norm("query_norm")?, head_norm("key_norm")?]));
        Ok(Attention {
            norm: norm(&block, "norm1", config)?,
            query: scope.linear_with("query", h, q, into)?,
            key: scope.linear_with("key", h, kv, into)?,
            value: scope.linear_with("value", h, kv, into)?,
            output: scope.linear_with("output", q, h, out)?,
            post_norm: post_norm(&block, "post_norm1", config)?,
            head_norms: head_norms.transpose()?,
            name: format!("blocks.{index}.attention"),
            head_size: config.head_size(),
            window: config.window(index),
            score_cap: (config.score_cap > 0.0).then_some(config.score_cap),
            dropout: config.dropout,
            query_scale: (config.score_size() != config.head_size())
                .then(|| (config.head_size() as f64 / config.score_size() as f64).sqrt()),
            rotary: config.design().is_rotary().then(|| {
                let head = RotaryHead {
                    size: config.head_size(),
                    turned: config.rotary_size(),
                };
                let (base, scaling) = match config.is_local(index) {
                    true => (config.local_rope_base, RopeScaling::None),
                    false => (config.rope_base, config.rope_scaling),
                };
                let frequencies = RotaryFrequencies {
                    base,
                    stretch: scaling.stretch(),
                };
                (head, frequencies)
            }),
        })
    }

    /// `documents`: as [`attention()`] takes them.
    pub(super) fn forward(&self, x: &DTensor, documents: Option<&Tensor>) -> Result<DTensor> {
        let sequence = x.shape()[1];
        let [mut q, mut k, v] = Linear::forward_all(
            [&self.query, &self.key, &self.value],
            &self.norm.forward(x)?,
        )?;
        if let Some([of_queries, of_keys]) = &self.head_norms {
            q = of_queries.forward(&q)?;
            k = of_keys.forward(&k)?;
        }
        if let Some(factor) = self.query_scale {
            q = q.scale(factor)?;
        }
        if let Some((head, frequencies)) = self.rotary {
            q = rope(&q, sequence, head, frequencies)?;
            k = rope(&k, sequence, head, frequencies)?;
        }
        let options = AttentionOptions {
            name: self.name.clone(),
            sequence,
            head_size: self.head_size,
            window: self.window,
            score_cap: self.score_cap,
            dropout: self.dropout,
        };
        let out = self
            .output
            .forward(&attention(&options, &q, &k, &v, documents)?)?;
        let out = with_post_norm(self.post_norm.as_ref(), out)?;
        x.add(&out.dropout(&format!("{}.residual", self.name), self.dropout, sequence)?)
    }
}

/// down(activation(up(norm(x)))), or where the family has it another norm of that, added to a residual.
#[derive(Debug)]
pub(super) struct Mlp {
    norm: Norm,
    gate: Option<Linear>,
    up: Linear,
    down: Linear,
    post_norm: Option<Norm>,
    activation: Activation,
    name: String,
    dropout: f64,
}

impl Mlp {
    pub(super) fn new(builder: &Builder, config: &GptConfig, index: usize) -> Result<Mlp> {
        let block = builder.scope(&format!("blocks.{index}"));
        let scope = block.scope("mlp");
        let (h, mlp) = (config.hidden, config.mlp_hidden());
        let (into, out) = (
            options(config, LinearKind::Normal, false),
            options(config, LinearKind::Transposed, true),
        );
        let norm = norm(&block, "norm2", config)?;
        Ok(Mlp {
            norm,
            gate: (config.design().gated)
                .then(|| scope.linear_with("gate", h, mlp, into))
                .transpose()?,
            up: scope.linear_with("up", h, mlp, into)?,
            down: scope.linear_with("down", mlp, h, out)?,
            post_norm: post_norm(&block, "post_norm2", config)?,
            activation: config.activation(),
            name: format!("blocks.{index}.mlp"),
            dropout: config.dropout,
        })
    }

    /// `residual`: `x` itself, or where the halves of a block read the same values, what attention has made of it.
    pub(super) fn forward(&self, x: &DTensor, residual: &DTensor) -> Result<DTensor> {
        let sequence = x.shape()[1];
        let normed = self.norm.forward(x)?;
        let inner = match (&self.gate, self.activation) {
            (None, Activation::GeluTanh) => self.up.forward_gelu(&normed)?,
            (None, activation) => activation.of(&self.up.forward(&normed)?)?,
            (Some(gate), activation) => {
                let [gate, up] = Linear::forward_all([gate, &self.up], &normed)?;
                activation.gated(&gate, &up)?
            }
        };
        let out = with_post_norm(self.post_norm.as_ref(), self.down.forward(&inner)?)?;
        residual.add(&out.dropout(&format!("{}.residual", self.name), self.dropout, sequence)?)
    }
}

/// The norm of the model's family.
pub(super) fn norm(builder: &Builder, name: &str, config: &GptConfig) -> Result<Norm> {
    let (features, epsilon) = (config.hidden, config.norm_epsilon);
    match config.design().norm {
        NormKind::Layer => builder.layer_norm(name, features, epsilon),
        NormKind::Rms => builder.rms_norm(name, features, epsilon),
        NormKind::RmsOffset => builder.rms_norm_offset(name, features, epsilon),
    }
}

// That of what is added to the residual, if there is one.
fn post_norm(builder: &Builder, name: &str, config: &GptConfig) -> Result<Option<Norm>> {
    config
        .post_norms
        .then(|| norm(builder, name, config))
        .transpose()
}

fn with_post_norm(norm: Option<&Norm>, x: DTensor) -> Result<DTensor> {
    match norm {
        Some(norm) => norm.forward(&x),
        None => Ok(x),
    }
}

// Weights that write to the residual stream start smaller, scaled by the root of their number, as in GPT-2.
fn options(config: &GptConfig, kind: LinearKind, writes_residual: bool) -> LinearOptions {
    let share = if writes_residual {
        1.0 / ((2 * config.layers) as f64).sqrt()
    } else {
        1.0
    };
    LinearOptions {
        kind,
        bias: config.design().biases,
        init: Some(Init::Normal(config.init_deviation * share)),
    }
}
