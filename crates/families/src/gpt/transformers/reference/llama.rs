//! Llama and its kin.

use super::{
    Source,
    loops::{Heads, activation, add, attention, matmul, rms_norm},
    rotary::{angles, rotate},
};
use crate::gpt::transformers::rope;
use serde_json::Value;
use train::{Result, checkpoint::foreign::PlainFolder, foreign::Settings};

/// Touvron et al., 2023 (arXiv 2302.13971): as GPT-2, with RMSNorm, rotary positions and SwiGLU. Qwen 2 adds biases, and Qwen 3
/// (arXiv 2505.09388) an RMSNorm of each head of queries and keys before they turn. Gemma (arXiv 2403.08295) multiplies the
/// embedding by the root of the width, normed rows by 1 + gain, and has GELU in place of SiLU.
pub(in super::super) fn llama(
    settings: &Settings,
    tensors: &PlainFolder,
    tokens: &[u32],
) -> Result<Vec<Vec<f64>>> {
    let is = |kind: &str| settings.get("model_type").and_then(Value::as_str) == Some(kind);
    let width = settings.size("hidden_size")?;
    let queries = settings.size("num_attention_heads")?;
    let shape = Heads {
        queries,
        keys: settings
            .size_or_none("num_key_value_heads")?
            .unwrap_or(queries),
        size: settings
            .size_or_none("head_dim")?
            .unwrap_or_else(|| match () {
                () if is("gemma") => 256,
                () if is("qwen3") => 128,
                () => width / queries,
            }),
    };
    let epsilon = settings.number_or("rms_norm_eps", 1e-6)?;
    let prefixed = tensors.contains("model.embed_tokens.weight");
    let source = Source {
        tensors,
        prefix: if prefixed { "model." } else { "" }.to_owned(),
    };
    let rotary = rope::read(settings, &rope::LLAMA)?;
    let function = activation(match settings.get("hidden_act").and_then(Value::as_str) {
        // The tanh form is what releases of Gemma mean by this name.
        None | Some("gelu") if is("gemma") => "gelu_pytorch_tanh",
        name => name.unwrap_or("silu"),
    });
    let angles = angles(&rotary, shape.size, tokens.len());
    let norm = |x: &[f64], name: &str| {
        let mut gain = source.read(&format!("{name}.weight"))?;
        if is("gemma") {
            gain.iter_mut().for_each(|gain| *gain += 1.0);
        }
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
    if is("gemma") {
        x.iter_mut().for_each(|x| *x *= (width as f64).sqrt());
    }
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
            *gate = function(*gate) * up;
        }
        add(&mut x, &linear(&inner, &format!("{block}mlp.down_proj"))?);
        outputs.push(x.clone());
    }
    let normed = norm(&x, "norm")?;
    let head = match settings.flag_or("tie_word_embeddings", is("gemma"))? {
        true => source.read("embed_tokens.weight")?,
        false => source.read_whole("lm_head.weight")?,
    };
    outputs.push(matmul(&normed, &head, width, None));
    Ok(outputs)
}
