//! Models as candle's examples have them, with initial values and rows that every rank can compute.

use candle_core::{D, DType, Device, IndexOp, Module, Result, Tensor};
use candle_nn::{
    Embedding, Linear, RmsNorm, VarBuilder, embedding, linear, linear_no_bias, loss, ops, rms_norm,
};
use fascicle_candle::NamedVars;

/// Number of rows in a batch of all ranks.
pub const ROWS: usize = 8;

/// A model whose loss is the mean over rows.
pub trait Model: Sized {
    fn new(builder: VarBuilder) -> Result<Self>;
    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor>;
}

/// The perceptron of candle's mnist-training: 784 pixels, 100 hidden units, 10 labels.
pub struct Mlp {
    up: Linear,
    down: Linear,
}

impl Model for Mlp {
    fn new(builder: VarBuilder) -> Result<Mlp> {
        Ok(Mlp {
            up: linear(784, 100, builder.pp("ln1"))?,
            down: linear(100, 10, builder.pp("ln2"))?,
        })
    }

    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor> {
        let (images, labels) = images(rows, self.up.weight().dtype())?;
        let logits = self.down.forward(&self.up.forward(&images)?.relu()?)?;
        loss::cross_entropy(&logits, &labels)
    }
}

/// A perceptron with a layer before the two that a test cuts, so that gradients leave the cut part.
pub struct Deep {
    first: Linear,
    up: Linear,
    down: Linear,
}

impl Model for Deep {
    fn new(builder: VarBuilder) -> Result<Deep> {
        Ok(Deep {
            first: linear(784, 32, builder.pp("ln0"))?,
            up: linear(32, 100, builder.pp("ln1"))?,
            down: linear(100, 10, builder.pp("ln2"))?,
        })
    }

    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor> {
        let (images, labels) = images(rows, self.up.weight().dtype())?;
        let x = self.first.forward(&images)?.relu()?;
        let logits = self.down.forward(&self.up.forward(&x)?.relu()?)?;
        loss::cross_entropy(&logits, &labels)
    }
}

/// Pixels of images and their labels.
pub fn images(rows: std::ops::Range<usize>, dtype: DType) -> Result<(Tensor, Tensor)> {
    let pixel = |row: usize| move |index| value(row * 784 + index);
    let pixels: Vec<f64> = rows
        .clone()
        .flat_map(|row| (0..784).map(pixel(row)))
        .collect();
    let labels: Vec<u32> = rows.clone().map(|row| (3 * row % 10) as u32).collect();
    let images = Tensor::from_vec(pixels, (rows.len(), 784), &Device::Cpu)?;
    Ok((images.to_dtype(dtype)?, Tensor::new(labels, &Device::Cpu)?))
}

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
        let id = |row: usize| move |index| ((7 * row + index * index) % VOCABULARY) as u32;
        let ids: Vec<u32> = rows
            .clone()
            .flat_map(|row| (0..=TOKENS).map(id(row)))
            .collect();
        let ids = Tensor::from_vec(ids, (rows.len(), TOKENS + 1), &Device::Cpu)?;
        let mut x = self.tokens.forward(&ids.i((.., ..TOKENS))?.contiguous()?)?;
        for block in &self.blocks {
            x = block.forward(&x, &self.angles)?;
        }
        let logits = self.head.forward(&self.norm.forward_diff(&x)?)?;
        loss::cross_entropy(&logits.flatten(0, 1)?, &ids.i((.., 1..))?.flatten_all()?)
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

/// A number between -0.5 and 0.5 (the finaliser of SplitMix64, Steele et al. 2014).
fn value(index: usize) -> f64 {
    let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64 - 0.5
}

/// Overwrites variables with numbers that depend on their place alone.
pub fn fill(vars: &NamedVars) -> Result<()> {
    for (place, (_, var)) in vars.iter().enumerate() {
        // Uniform with the spread of the inputs; scales of norms are around 1.
        let width = var.dims()[var.rank() - 1] as f64;
        let middle = if var.rank() == 1 { 1.0 } else { 0.0 };
        let values: Vec<f64> = (0..var.elem_count())
            .map(|index| middle + 3.0 * value(index + 100_000 * place) / width.sqrt())
            .collect();
        var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu)?.to_dtype(var.dtype())?)?;
    }
    Ok(())
}
