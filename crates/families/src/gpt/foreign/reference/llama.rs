//! Llama and its kin.

use super::{
    Source,
    loops::{Heads, activation, add, attention, capped, matmul, rms_norm},
    rotary::{angles, rotate},
};
use crate::gpt::foreign::rope;
use serde_json::Value;
use train::{Result, checkpoint::foreign::PlainFolder, foreign::Settings};

/// Touvron et al., 2023 (arXiv 2302.13971): as GPT-2, with RMSNorm, rotary positions and SwiGLU. Mistral has windows, Qwen 2 adds biases, and Qwen 3
/// (arXiv 2505.09388) an RMSNorm of each head of queries and keys before they turn. Gemma (arXiv 2403.08295) multiplies the
/// embedding by the root of the width, normed rows by 1 + gain, and has GELU in place of SiLU. Gemma 2 (arXiv 2408.00118, section 2)
/// norms what attention and the MLP return, bounds scores and logits, and has windows in every other block. Of Gemma 3
/// (arXiv 2503.19786, section 2), most blocks have windows, and these turn heads by another base.
pub(in super::super) fn llama(
    settings: &Settings,
    tensors: &PlainFolder,
    tokens: &[u32],
) -> Result<Vec<Vec<f64>>> {
    let kind = settings.get("model_type").and_then(Value::as_str);
    let is = |other: &str| kind == Some(other);
    let is_gemma3 = is("gemma3_text");
    let is_later_gemma = is("gemma2") || is_gemma3;
    let is_gemma = is("gemma") || is_later_gemma;
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
                () if is_gemma => 256,
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
    let of_kind = match is_gemma3 {
        true => rope::read_both(settings)?.map(|rotary| angles(&rotary, shape.size, tokens.len())),
        false => {
            let rotary = rope::read(settings, &rope::LLAMA)?;
            let angles = angles(&rotary, shape.size, tokens.len());
            [angles.clone(), angles]
        }
    };
    let kinds = settings.get("layer_types").and_then(Value::as_array);
    let pattern = settings
        .size_or_none("sliding_window_pattern")?
        .unwrap_or(if is_gemma3 { 6 } else { 2 });
    let is_qwen = is("qwen2") || is("qwen3");
    let first_of_qwen = settings.size_or_none("max_window_layers")?.unwrap_or(28);
    let is_local = |block: usize| match kinds.and_then(|kinds| kinds.get(block)) {
        Some(kind) => kind == "sliding_attention",
        None if is_later_gemma => !(block + 1).is_multiple_of(pattern),
        None => !is_qwen || block >= first_of_qwen,
    };
    // Jiang et al., 2023 (arXiv 2310.06825, section 2): a token attends to the last tokens up to its own.
    let has_windows = match is_qwen {
        true => settings.flag_or("use_sliding_window", false)?,
        false => is_later_gemma || is("mistral"),
    };
    let window = settings.size_or_none("sliding_window")?;
    let unstated = is("gemma2") && !settings.states("sliding_window");
    let window = window.or(unstated.then_some(4096));
    let window = window.filter(|_| has_windows);
    let cap = |key: &str, of_gemma2: f64| {
        let unstated = is("gemma2") && !settings.states(key);
        let cap = settings.number_or(key, if unstated { of_gemma2 } else { 0.0 })?;
        Ok::<_, train::Error>((cap != 0.0).then_some(cap))
    };
    let score_cap = cap("attn_logit_softcapping", 50.0)?;
    let logit_cap = cap("final_logit_softcapping", 30.0)?;
    // Queries are divided by this, and scores by the root of the head size.
    let divisor = match is_later_gemma {
        true => (settings.number_or("query_pre_attn_scalar", 256.0)? / shape.size as f64).sqrt(),
        false => 1.0,
    };
    let function = match is_later_gemma {
        true => "hidden_activation",
        false => "hidden_act",
    };
    let function = activation(match settings.get(function).and_then(Value::as_str) {
        None if is_later_gemma => "gelu_pytorch_tanh",
        // The tanh form is what releases of Gemma mean by this name.
        None | Some("gelu") if is("gemma") => "gelu_pytorch_tanh",
        name => name.unwrap_or("silu"),
    });
    let norm = |x: &[f64], name: &str| {
        let mut gain = source.read(&format!("{name}.weight"))?;
        if is_gemma {
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
    if is_gemma {
        x.iter_mut().for_each(|x| *x *= (width as f64).sqrt());
    }
    let mut outputs = vec![x.clone()];
    for block_number in 0..settings.size("num_hidden_layers")? {
        let block = format!("layers.{block_number}.");
        let normed = norm(&x, &format!("{block}input_layernorm"))?;
        let own = |which: &str| linear(&normed, &format!("{block}self_attn.{which}_proj"));
        let (mut q, mut k, v) = (own("q")?, own("k")?, own("v")?);
        if tensors.contains(&format!("{}{block}self_attn.q_norm.weight", source.prefix)) {
            // The heads of a row lie one after the other, each as long as the gain.
            q = norm(&q, &format!("{block}self_attn.q_norm"))?;
            k = norm(&k, &format!("{block}self_attn.k_norm"))?;
        }
        q.iter_mut().for_each(|q| *q /= divisor);
        let angles = &of_kind[usize::from(!is_local(block_number))];
        rotate(&mut q, shape.queries, angles);
        rotate(&mut k, shape.keys, angles);
        let window = window.filter(|_| is_local(block_number));
        let met = attention([&q, &k, &v], shape, window, score_cap);
        let mut attended = linear(&met, &format!("{block}self_attn.o_proj"))?;
        if is_later_gemma {
            attended = norm(&attended, &format!("{block}post_attention_layernorm"))?;
        }
        add(&mut x, &attended);
        outputs.push(x.clone());
        let before = match is_later_gemma {
            true => "pre_feedforward_layernorm",
            false => "post_attention_layernorm",
        };
        let normed = norm(&x, &format!("{block}{before}"))?;
        let mut inner = linear(&normed, &format!("{block}mlp.gate_proj"))?;
        let up = linear(&normed, &format!("{block}mlp.up_proj"))?;
        for (gate, up) in inner.iter_mut().zip(up) {
            *gate = function(*gate) * up;
        }
        let mut inner = linear(&inner, &format!("{block}mlp.down_proj"))?;
        if is_later_gemma {
            inner = norm(&inner, &format!("{block}post_feedforward_layernorm"))?;
        }
        add(&mut x, &inner);
        outputs.push(x.clone());
    }
    let normed = norm(&x, "norm")?;
    let head = match settings.flag_or("tie_word_embeddings", is_gemma)? {
        true => source.read("embed_tokens.weight")?,
        false => source.read_whole("lm_head.weight")?,
    };
    let mut logits = matmul(&normed, &head, width, None);
    logits.iter_mut().for_each(|x| *x = capped(*x, logit_cap));
    outputs.push(logits);
    Ok(outputs)
}
