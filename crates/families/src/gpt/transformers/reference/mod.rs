//! Outputs of each architecture by its definition, in f64 and plain loops, from another program's own tensors.
//!
//! One tensor is in memory at a time. `loops` has the operations; here is their order.

mod loops;

use super::rope;
use crate::RopeScaling;
use grid::IndexBox;
use loops::{Heads, add, attention, gelu, layer_norm, matmul, rms_norm, rotate, silu, transposed};
use std::f64::consts::TAU;
use train::{Result, checkpoint::foreign::PlainFolder, foreign::Settings};

/// The tensors under a prefix.
struct Source<'a> {
    tensors: &'a PlainFolder,
    prefix: String,
}

impl Source<'_> {
    fn read(&self, name: &str) -> Result<Vec<f64>> {
        self.read_whole(&format!("{}{name}", self.prefix))
    }

    fn read_whole(&self, name: &str) -> Result<Vec<f64>> {
        let shape = self.tensors.info(name)?.global_shape;
        let index = IndexBox::full(&shape);
        Ok(self.tensors.read_f64(name, &shape, &index)?)
    }

    // Rows of a table.
    fn rows(&self, name: &str, rows: &[u32]) -> Result<Vec<f64>> {
        let name = format!("{}{name}", self.prefix);
        let shape = self.tensors.info(&name)?.global_shape;
        let mut out = Vec::new();
        for row in rows {
            let index = IndexBox {
                start: vec![*row as usize, 0],
                shape: vec![1, shape[1]],
            };
            out.extend(self.tensors.read_f64(&name, &shape, &index)?);
        }
        Ok(out)
    }
}

/// Radford et al., 2019: x + attention(norm(x)), then x + mlp(norm(x)), with learnt positions.
pub(super) fn gpt2(
    settings: &Settings,
    tensors: &PlainFolder,
    tokens: &[u32],
) -> Result<Vec<Vec<f64>>> {
    let (width, heads) = (settings.size("n_embd")?, settings.size("n_head")?);
    let epsilon = settings.number_or("layer_norm_epsilon", 1e-5)?;
    let prefixed = tensors.contains("transformer.wte.weight");
    let source = Source {
        tensors,
        prefix: if prefixed { "transformer." } else { "" }.to_owned(),
    };
    let places: Vec<u32> = (0..tokens.len() as u32).collect();
    let mut x = source.rows("wte.weight", tokens)?;
    add(&mut x, &source.rows("wpe.weight", &places)?);
    let norm = |x: &[f64], name: &str| {
        let [gain, bias] = ["weight", "bias"].map(|part| source.read(&format!("{name}.{part}")));
        Ok::<_, train::Error>(layer_norm(x, &gain?, &bias?, epsilon))
    };
    // Its matrices have as many rows as inputs.
    let linear = |x: &[f64], name: &str, inputs: usize| {
        let bias = source.read(&format!("{name}.bias"))?;
        let weight = source.read(&format!("{name}.weight"))?;
        let weight = transposed(&weight, inputs);
        Ok::<_, train::Error>(matmul(x, &weight, inputs, Some(&bias)))
    };
    let mut outputs = vec![x.clone()];
    for block in 0..settings.size("n_layer")? {
        let block = format!("h.{block}.");
        let normed = norm(&x, &format!("{block}ln_1"))?;
        let all = linear(&normed, &format!("{block}attn.c_attn"), width)?;
        let part = |index: usize| -> Vec<f64> {
            let rows = all.chunks(3 * width);
            rows.flat_map(|row| row[index * width..(index + 1) * width].to_vec())
                .collect()
        };
        let shape = Heads {
            queries: heads,
            keys: heads,
            size: width / heads,
        };
        let met = attention(&part(0), &part(1), &part(2), shape);
        add(
            &mut x,
            &linear(&met, &format!("{block}attn.c_proj"), width)?,
        );
        outputs.push(x.clone());
        let normed = norm(&x, &format!("{block}ln_2"))?;
        let mut inner = linear(&normed, &format!("{block}mlp.c_fc"), width)?;
        inner.iter_mut().for_each(|number| *number = gelu(*number));
        let inputs = inner.len() / tokens.len();
        add(
            &mut x,
            &linear(&inner, &format!("{block}mlp.c_proj"), inputs)?,
        );
        outputs.push(x.clone());
    }
    let normed = norm(&x, "ln_f")?;
    let head = match settings.flag_or("tie_word_embeddings", true)? {
        true => source.read("wte.weight")?,
        false => source.read_whole("lm_head.weight")?,
    };
    outputs.push(matmul(&normed, &head, width, None));
    Ok(outputs)
}

/// Touvron et al., 2023 (arXiv 2302.13971): as GPT-2, with RMSNorm, rotary positions and SwiGLU. Qwen 2 adds biases, and Qwen 3
/// (arXiv 2505.09388) an RMSNorm of each head of queries and keys before they turn.
pub(super) fn llama(
    settings: &Settings,
    tensors: &PlainFolder,
    tokens: &[u32],
) -> Result<Vec<Vec<f64>>> {
    let width = settings.size("hidden_size")?;
    let queries = settings.size("num_attention_heads")?;
    let shape = Heads {
        queries,
        keys: settings
            .size_or_none("num_key_value_heads")?
            .unwrap_or(queries),
        size: settings
            .size_or_none("head_dim")?
            .unwrap_or(width / queries),
    };
    let epsilon = settings.number_or("rms_norm_eps", 1e-6)?;
    let prefixed = tensors.contains("model.embed_tokens.weight");
    let source = Source {
        tensors,
        prefix: if prefixed { "model." } else { "" }.to_owned(),
    };
    let angles = angles(settings, shape.size, tokens.len())?;
    let norm = |x: &[f64], name: &str| {
        let gain = source.read(&format!("{name}.weight"))?;
        Ok::<_, train::Error>(rms_norm(x, &gain, epsilon))
    };
    let linear = |x: &[f64], name: &str| {
        let bias = format!("{}{name}.bias", source.prefix);
        let bias = tensors.contains(&bias).then(|| source.read_whole(&bias));
        let weight = source.read(&format!("{name}.weight"))?;
        let inputs = x.len() / tokens.len();
        Ok::<_, train::Error>(matmul(x, &weight, inputs, bias.transpose()?.as_deref()))
    };
    let mut x = source.rows("embed_tokens.weight", tokens)?;
    let mut outputs = vec![x.clone()];
    for block in 0..settings.size("num_hidden_layers")? {
        let block = format!("layers.{block}.");
        let normed = norm(&x, &format!("{block}input_layernorm"))?;
        let own = |which: &str| linear(&normed, &format!("{block}self_attn.{which}_proj"));
        let (mut q, mut k, v) = (own("q")?, own("k")?, own("v")?);
        if tensors.contains(&format!("{}{block}self_attn.q_norm.weight", source.prefix)) {
            // The heads of a row lie one after the other, each as long as the gain.
            q = norm(&q, &format!("{block}self_attn.q_norm"))?;
            k = norm(&k, &format!("{block}self_attn.k_norm"))?;
        }
        rotate(&mut q, shape.queries, &angles);
        rotate(&mut k, shape.keys, &angles);
        let met = attention(&q, &k, &v, shape);
        add(&mut x, &linear(&met, &format!("{block}self_attn.o_proj"))?);
        outputs.push(x.clone());
        let normed = norm(&x, &format!("{block}post_attention_layernorm"))?;
        let mut inner = linear(&normed, &format!("{block}mlp.gate_proj"))?;
        let up = linear(&normed, &format!("{block}mlp.up_proj"))?;
        for (gate, up) in inner.iter_mut().zip(up) {
            *gate = silu(*gate) * up;
        }
        add(&mut x, &linear(&inner, &format!("{block}mlp.down_proj"))?);
        outputs.push(x.clone());
    }
    let normed = norm(&x, "norm")?;
    let head = match settings.flag_or("tie_word_embeddings", false)? {
        true => source.read("embed_tokens.weight")?,
        false => source.read_whole("lm_head.weight")?,
    };
    outputs.push(matmul(&normed, &head, width, None));
    Ok(outputs)
}

// The angle of each pair of a head at each place.
fn angles(settings: &Settings, size: usize, places: usize) -> Result<Vec<Vec<f64>>> {
    let (base, scaling) = rope::read(settings)?;
    let frequency = |pair: usize| {
        let plain = 1.0 / base.powf(2.0 * pair as f64 / size as f64);
        match scaling {
            RopeScaling::None => plain,
            RopeScaling::Linear(factor) => plain / factor,
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                context,
            } => {
                let turns = context as f64 * plain / TAU;
                if turns > high {
                    plain
                } else if turns < low {
                    plain / factor
                } else {
                    let share = (turns - low) / (high - low);
                    (1.0 - share) * plain / factor + share * plain
                }
            }
        }
    };
    let at = |place: usize| {
        (0..size / 2)
            .map(|pair| place as f64 * frequency(pair))
            .collect()
    };
    Ok((0..places).map(at).collect())
}
