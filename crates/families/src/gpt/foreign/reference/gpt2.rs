//! GPT-2.

use super::{
    Source,
    loops::{Heads, activation, add, attention, layer_norm, matmul, transposed},
};
use serde_json::Value;
use train::{Result, checkpoint::foreign::PlainFolder, foreign::Settings};

/// Radford et al., 2019: x + attention(norm(x)), then x + mlp(norm(x)), with learnt positions.
pub(in super::super) fn gpt2(
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
    let function = settings.get("activation_function").and_then(Value::as_str);
    let function = activation(function.unwrap_or("gelu_new"));
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
        let met = attention([&part(0), &part(1), &part(2)], shape, None, None);
        add(
            &mut x,
            &linear(&met, &format!("{block}attn.c_proj"), width)?,
        );
        outputs.push(x.clone());
        let normed = norm(&x, &format!("{block}ln_2"))?;
        let mut inner = linear(&normed, &format!("{block}mlp.c_fc"), width)?;
        inner
            .iter_mut()
            .for_each(|number| *number = function(*number));
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
