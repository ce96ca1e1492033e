//! Small language models.

use super::Model;
use candle_core::{D, DType, Device, IndexOp, Module, Result, Tensor};
use candle_nn::{
    Embedding, Linear, RmsNorm, VarBuilder, embedding, linear_no_bias, loss, ops, rms_norm,
};
use candle_transformers::models::llama2_c;
use std::collections::HashMap;

const VOCABULARY: usize = 30;
const WIDTH: usize = 16;
const HEADS: usize = 4;
const TOKENS: usize = 12;

/// A transformer as candle's llama2-c trains: RMS norms, rotary positions, causal attention and a gated MLP.
pub struct Transformer {
    tokens: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
    head: Linear,
    angles: (Tensor, Tensor),
}

struct Block {
    norms: [RmsNorm; 2],
    attention: [Linear; 4],
    mlp: [Linear; 3],
}

impl Model for Transformer {
    fn new(builder: VarBuilder) -> Result<Transformer> {
        let blocks = (0..2).map(|index| Block::new(builder.pp(format!("model.layers.{index}"))));
        let half = WIDTH / HEADS / 2;
        let angle = |index: usize| {
            (index / half) as f64 * 10_000f64.powf(-((index % half) as f64) / half as f64)
        };
        let angles: Vec<f64> = (0..TOKENS * half).map(angle).collect();
        let angles = Tensor::from_vec(angles, (TOKENS, half), &Device::Cpu)?;
        let dtype = builder.dtype();
        Ok(Transformer {
            blocks: blocks.collect::<Result<_>>()?,
            tokens: embedding(VOCABULARY, WIDTH, builder.pp("model.embed_tokens"))?,
            norm: rms_norm(WIDTH, 1e-5, builder.pp("model.norm"))?,
            head: linear_no_bias(WIDTH, VOCABULARY, builder.pp("lm_head"))?,
            angles: (
                angles.cos()?.to_dtype(dtype)?,
                angles.sin()?.to_dtype(dtype)?,
            ),
        })
    }

    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor> {
        let (inputs, targets) = text(rows)?;
        let mut x = self.tokens.forward(&inputs)?;
        for block in &self.blocks {
            x = block.forward(&x, &self.angles)?;
        }
        let logits = self.head.forward(&self.norm.forward_diff(&x)?)?;
        loss::cross_entropy(&logits.flatten(0, 1)?, &targets)
    }
}

impl Block {
    fn new(builder: VarBuilder) -> Result<Block> {
        let norm = |name| rms_norm(WIDTH, 1e-5, builder.pp(name));
        let square = |name| linear_no_bias(WIDTH, WIDTH, builder.pp("self_attn").pp(name));
        let mlp =
            |name, inputs, outputs| linear_no_bias(inputs, outputs, builder.pp("mlp").pp(name));
        Ok(Block {
            norms: [norm("input_layernorm")?, norm("post_attention_layernorm")?],
            attention: [
                square("q_proj")?,
                square("k_proj")?,
                square("v_proj")?,
                square("o_proj")?,
            ],
            mlp: [
                mlp("gate_proj", WIDTH, 40)?,
                mlp("up_proj", WIDTH, 40)?,
                mlp("down_proj", 40, WIDTH)?,
            ],
        })
    }

    fn forward(&self, x: &Tensor, angles: &(Tensor, Tensor)) -> Result<Tensor> {
        let x = (x + self.attend(&self.norms[0].forward_diff(x)?, angles)?)?;
        let [gate, up, down] = &self.mlp;
        let y = self.norms[1].forward_diff(&x)?;
        let y = down.forward(&(gate.forward(&y)?.silu()? * up.forward(&y)?)?)?;
        x + y
    }

    fn attend(&self, x: &Tensor, (cos, sin): &(Tensor, Tensor)) -> Result<Tensor> {
        let (rows, tokens, _) = x.dims3()?;
        let heads = |layer: &Linear| {
            let x = layer
                .forward(x)?
                .reshape((rows, tokens, HEADS, WIDTH / HEADS))?;
            x.transpose(1, 2)?.contiguous()
        };
        let rotated = |x: Tensor| candle_nn::rotary_emb::rope_slow(&x, cos, sin)?.contiguous();
        let [q, k, v, o] = &self.attention;
        let (q, k, v) = (rotated(heads(q)?)?, rotated(heads(k)?)?, heads(v)?);
        let scores = (q.matmul(&k.t()?)? / ((WIDTH / HEADS) as f64).sqrt())?;
        let mask: Vec<f32> = (0..tokens * tokens)
            .map(|at| {
                if at % tokens > at / tokens {
                    f32::NEG_INFINITY
                } else {
                    0.0
                }
            })
            .collect();
        let mask = Tensor::from_vec(mask, (tokens, tokens), &Device::Cpu)?.to_dtype(x.dtype())?;
        let y = ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?.matmul(&v)?;
        o.forward(&y.transpose(1, 2)?.reshape((rows, tokens, WIDTH))?)
    }
}

/// llama2-c as candle-transformers has it.
///
/// In candle 0.11 the fused RMS norm that it calls has no backward pass (<https://github.com/huggingface/candle/issues/2168>), so only
/// the head behind the last norm has a gradient; [`Transformer`] calls the norm that has one.
pub struct Llama {
    model: llama2_c::Llama,
}

impl Model for Llama {
    fn new(builder: VarBuilder) -> Result<Llama> {
        let config = llama2_c::Config {
            dim: WIDTH,
            hidden_dim: 40,
            n_layers: 2,
            n_heads: HEADS,
            n_kv_heads: HEADS / 2,
            vocab_size: VOCABULARY,
            seq_len: TOKENS,
            norm_eps: 1e-5,
        };
        Ok(Llama {
            model: llama2_c::Llama::load(builder, config)?,
        })
    }

    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor> {
        let (inputs, targets) = text(rows)?;
        // Angles that no file has are computed.
        let none = VarBuilder::from_tensors(HashMap::new(), DType::F32, &Device::Cpu);
        let mut cache = llama2_c::Cache::new(false, &self.model.config, none)?;
        let logits = self.model.forward(&inputs, 0, &mut cache)?;
        loss::cross_entropy(&logits.flatten(0, 1)?, &targets)
    }
}

/// Tokens, and those that follow each of them.
fn text(rows: std::ops::Range<usize>) -> Result<(Tensor, Tensor)> {
    let id = |row: usize| move |index| ((7 * row + index * index) % VOCABULARY) as u32;
    let ids: Vec<u32> = rows
        .clone()
        .flat_map(|row| (0..=TOKENS).map(id(row)))
        .collect();
    let ids = Tensor::from_vec(ids, (rows.len(), TOKENS + 1), &Device::Cpu)?;
    let inputs = ids.i((.., ..TOKENS))?.contiguous()?;
    Ok((inputs, ids.i((.., 1..))?.flatten_all()?))
}
