//! GPT-NeoX.

use super::{
    Source,
    loops::{Heads, activation, add, attention, layer_norm, matmul},
    rotary::{angles, rotate},
};
use crate::gpt::foreign::rope;
use serde_json::Value;
use train::{Result, checkpoint::foreign::PlainFolder, foreign::Settings};

/// Black et al., 2022 (arXiv 2204.06745): x + attention(norm(x)) + mlp(norm(x)), or one after the other, with rotary positions on
/// a part of each head. Queries, keys and values of a head lie one after another.
pub(in super::super) fn neox(
    settings: &Settings,
    tensors: &PlainFolder,
    tokens: &[u32],
) -> Result<Vec<Vec<f64>>> {
    let width = settings.size("hidden_size")?;
    let heads = settings.size("num_attention_heads")?;
    let shape = Heads {
        queries: heads,
        keys: heads,
        size: width / heads,
    };
    let epsilon = settings.number_or("layer_norm_eps", 1e-5)?;
    let is_parallel = settings.flag_or("use_parallel_residual", true)?;
    let rotary = rope::read(settings, &rope::NEOX)?;
    let turned = (shape.size as f64 * rotary.share) as usize;
    let angles = angles(&rotary, turned, tokens.len());
    let function = settings.get("hidden_act").and_then(Value::as_str);
    let function = activation(function.unwrap_or("gelu"));
    let prefixed = tensors.contains("gpt_neox.embed_in.weight");
    let source = Source {
        tensors,
        prefix: if prefixed { "gpt_neox." } else { "" }.to_owned(),
    };
    let norm = |x: &[f64], name: &str| {
        let [gain, bias] = ["weight", "bias"].map(|part| source.read(&format!("{name}.{part}")));
        Ok::<_, train::Error>(layer_norm(x, &gain?, &bias?, epsilon))
    };
    let linear = |x: &[f64], name: &str| {
        let bias = source.read(&format!("{name}.bias"))?;
        let weight = source.read(&format!("{name}.weight"))?;
        Ok::<_, train::Error>(matmul(x, &weight, x.len() / tokens.len(), Some(&bias)))
    };
    let mut x = source.rows("embed_in.weight", tokens)?;
    let mut outputs = vec![x.clone()];
    for block in 0..settings.size("num_hidden_layers")? {
        let block = format!("layers.{block}.");
        let normed = norm(&x, &format!("{block}input_layernorm"))?;
        let all = linear(&normed, &format!("{block}attention.query_key_value"))?;
        let part = |index: usize| -> Vec<f64> {
            let of_heads = all.chunks(3 * shape.size);
            of_heads
                .flat_map(|head| head[index * shape.size..][..shape.size].to_vec())
                .collect()
        };
        let (mut q, mut k, v) = (part(0), part(1), part(2));
        rotate(&mut q, heads, &angles);
        rotate(&mut k, heads, &angles);
        let met = attention([&q, &k, &v], shape, None, None);
        let mut sum = x.clone();
        add(&mut sum, &linear(&met, &format!("{block}attention.dense"))?);
        // Where the MLP reads what attention has read, that is handed on too.
        outputs.push(match is_parallel {
            true => [&sum[..], &x].concat(),
            false => sum.clone(),
        });
        let read = if is_parallel { &x } else { &sum };
        let normed = norm(read, &format!("{block}post_attention_layernorm"))?;
        let mut inner = linear(&normed, &format!("{block}mlp.dense_h_to_4h"))?;
        inner
            .iter_mut()
            .for_each(|number| *number = function(*number));
        add(
            &mut sum,
            &linear(&inner, &format!("{block}mlp.dense_4h_to_h"))?,
        );
        x = sum;
        outputs.push(x.clone());
    }
    let normed = norm(&x, "final_layer_norm")?;
    let head = match settings.flag_or("tie_word_embeddings", false)? {
        true => source.read("embed_in.weight")?,
        false => source.read_whole("embed_out.weight")?,
    };
    outputs.push(matmul(&normed, &head, width, None));
    Ok(outputs)
}
