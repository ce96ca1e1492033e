//! Models of Megatron-LM.

use super::{
    Source,
    loops::{Heads, activation, add, attention, layer_norm, matmul, rms_norm},
    rotary::{angles, rotate},
};
use crate::{RopeScaling, gpt::foreign::rope::Rotary};
use serde_json::Value;
use train::{Result, checkpoint::foreign::PlainFolder, foreign::Settings};

/// Shoeybi et al., 2019 (arXiv 1909.08053) and `megatron/core`: a norm in front of attention and of the MLP, whose tensors are named after the
/// linear layers that read it. A row of queries, keys and values has those of a group after those of another; one of a gated MLP
/// all gates before all that they multiply.
pub(in super::super) fn megatron(
    settings: &Settings,
    tensors: &PlainFolder,
    tokens: &[u32],
) -> Result<Vec<Vec<f64>>> {
    let width = settings.size("hidden_size")?;
    let queries = settings.size("num_attention_heads")?;
    let shape = Heads {
        queries,
        keys: match settings.flag_or("group_query_attention", false)? {
            true => settings.size("num_query_groups")?,
            false => queries,
        },
        size: settings.size("kv_channels")?,
    };
    let epsilon = settings.number_or("norm_epsilon", 1e-5)?;
    let epsilon = settings.number_or("layernorm_epsilon", epsilon)?;
    let source = Source {
        tensors,
        prefix: String::new(),
    };
    let optional = |name: String| {
        tensors
            .contains(&name)
            .then(|| source.read(&name))
            .transpose()
    };
    let is_rms = settings.get("normalization").and_then(Value::as_str) == Some("RMSNorm");
    let norm = |x: &[f64], name: &str| {
        let gain = source.read(&format!("{name}weight"))?;
        Ok::<_, train::Error>(match is_rms {
            true => rms_norm(x, &gain, epsilon),
            false => layer_norm(x, &gain, &source.read(&format!("{name}bias"))?, epsilon),
        })
    };
    let linear = |x: &[f64], name: &str| {
        let weight = source.read(&format!("{name}.weight"))?;
        let bias = optional(format!("{name}.bias"))?;
        Ok::<_, train::Error>(matmul(x, &weight, x.len() / tokens.len(), bias.as_deref()))
    };
    let positions = settings
        .get("position_embedding_type")
        .and_then(Value::as_str);
    let turned = settings.number_or("rotary_percent", 1.0)? * shape.size as f64;
    let rotary = Rotary {
        base: settings.number_or("rotary_base", 1e4)?,
        scaling: match settings.flag_or("use_rope_scaling", false)? {
            false => RopeScaling::None,
            // `rotary_pos_embedding.py`, `_apply_scaling`.
            true => RopeScaling::Llama3 {
                factor: 8.0,
                low: 1.0,
                high: 4.0,
                context: 8192,
            },
        },
        share: 1.0,
    };
    let angles =
        (positions == Some("rope")).then(|| angles(&rotary, turned as usize, tokens.len()));
    let gated = settings.flag_or("swiglu", false)?;
    let function = activation(match (gated, settings.flag_or("bias_gelu_fusion", true)?) {
        (true, _) => "silu",
        (false, true) => "gelu_new",
        (false, false) => "gelu",
    });
    let mut x = source.rows("embedding.word_embeddings.weight", tokens)?;
    if angles.is_none() {
        let places: Vec<u32> = (0..tokens.len() as u32).collect();
        add(
            &mut x,
            &source.rows("embedding.position_embeddings.weight", &places)?,
        );
    }
    let mut outputs = vec![x.clone()];
    for block in 0..settings.size("num_layers")? {
        let block = format!("decoder.layers.{block}.");
        let attends = format!("{block}self_attention.");
        let normed = norm(&x, &format!("{attends}linear_qkv.layer_norm_"))?;
        let all = linear(&normed, &format!("{attends}linear_qkv"))?;
        let (mut q, mut k, mut v) = (Vec::new(), Vec::new(), Vec::new());
        let own = queries / shape.keys * shape.size;
        for group in all.chunks(own + 2 * shape.size) {
            let (of_queries, rest) = group.split_at(own);
            let (key, value) = rest.split_at(shape.size);
            q.extend_from_slice(of_queries);
            k.extend_from_slice(key);
            v.extend_from_slice(value);
        }
        if settings.flag_or("qk_layernorm", false)? {
            q = norm(&q, &format!("{attends}q_layernorm."))?;
            k = norm(&k, &format!("{attends}k_layernorm."))?;
        }
        if let Some(angles) = &angles {
            rotate(&mut q, shape.queries, angles);
            rotate(&mut k, shape.keys, angles);
        }
        let met = attention([&q, &k, &v], shape, None, None);
        add(&mut x, &linear(&met, &format!("{attends}linear_proj"))?);
        outputs.push(x.clone());
        let normed = norm(&x, &format!("{block}mlp.linear_fc1.layer_norm_"))?;
        let inner = linear(&normed, &format!("{block}mlp.linear_fc1"))?;
        let inner: Vec<f64> = match gated {
            false => inner.into_iter().map(function).collect(),
            true => {
                let rows = inner.chunks(inner.len() / tokens.len());
                let halves = rows.flat_map(|row| {
                    let (gates, ups) = row.split_at(row.len() / 2);
                    gates.iter().zip(ups).map(|(gate, up)| function(*gate) * up)
                });
                halves.collect()
            }
        };
        add(&mut x, &linear(&inner, &format!("{block}mlp.linear_fc2"))?);
        outputs.push(x.clone());
    }
    let normed = norm(&x, "decoder.final_layernorm.")?;
    let head = match settings.flag_or("untie_embeddings_and_output_weights", false)? {
        true => "output_layer.weight",
        false => "embedding.word_embeddings.weight",
    };
    outputs.push(matmul(&normed, &source.read(head)?, width, None));
    Ok(outputs)
}
