//! Prefill and decode of a Llama in candle, for comparison with `fascicle bench generate --family llama`.
//!
//! ```sh
//! RAYON_NUM_THREADS=2 cargo run --release --manifest-path ci/peers/candle_generate/Cargo.toml -- --batch 8 --precision bf16
//! ```
//!
//! The model is that of candle-transformers with its cache. Weights are random: only the time counts. Sizes are those of
//! `fascicle bench generate`, and `--mlp` is the width that it takes by default. Tokens are chosen greedily. Prints one line of JSON.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::llama::{Cache, Config, Llama};
use clap::Parser;
use std::time::Instant;

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 4)]
    layers: usize,
    #[arg(long, default_value_t = 512)]
    hidden: usize,
    #[arg(long, default_value_t = 8)]
    heads: usize,
    #[arg(long)]
    mlp: Option<usize>,
    #[arg(long, default_value_t = 8192)]
    vocabulary: usize,
    #[arg(long, default_value_t = 256)]
    context: usize,
    #[arg(long, default_value_t = 8)]
    batch: usize,
    #[arg(long, default_value_t = 16)]
    prompt: usize,
    #[arg(long, default_value_t = 240)]
    tokens: usize,
    #[arg(long, default_value = "f32", value_parser = ["f32", "bf16"])]
    precision: String,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn main() -> Result<()> {
    let args = Arguments::parse();
    let (device, hidden) = (Device::Cpu, args.hidden);
    let dtype = match args.precision.as_str() {
        "bf16" => DType::BF16,
        _ => DType::F32,
    };
    let config = Config {
        hidden_size: hidden,
        intermediate_size: args.mlp.unwrap_or((8 * hidden).div_ceil(3).div_ceil(8) * 8),
        vocab_size: args.vocabulary,
        num_hidden_layers: args.layers,
        num_attention_heads: args.heads,
        num_key_value_heads: args.heads,
        use_flash_attn: false,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: None,
        max_position_embeddings: args.context,
        tie_word_embeddings: false,
    };
    let weights = VarMap::new();
    let model = Llama::load(VarBuilder::from_varmap(&weights, dtype, &device), &config)?;
    let elements: usize = weights.all_vars().iter().map(|one| one.elem_count()).sum();

    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    for round in 0..=args.rounds {
        let mut cache = Cache::new(true, dtype, &config, &device)?;
        let prompts: Vec<u32> = (0..args.batch * args.prompt)
            .map(|_| rand::random_range(0..args.vocabulary as u32))
            .collect();
        let prompts = Tensor::from_vec(prompts, (args.batch, args.prompt), &device)?;
        let begun = Instant::now();
        let choose = |logits: Tensor| logits.argmax(D::Minus1)?.unsqueeze(1);
        let mut newest = choose(model.forward(&prompts, 0, &mut cache)?)?;
        let middle = Instant::now();
        for step in 0..args.tokens - 1 {
            newest = choose(model.forward(&newest, args.prompt + step, &mut cache)?)?;
        }
        let end = Instant::now();
        if round > 0 {
            let rate = |tokens: usize, seconds: f64| (args.batch * tokens) as f64 / seconds;
            prefill.push(rate(args.prompt, (middle - begun).as_secs_f64()));
            decode.push(rate(args.tokens - 1, (end - middle).as_secs_f64()));
        }
    }
    let said = serde_json::json!({
        "candle": "0.11",
        "precision": args.precision,
        "sequences": args.batch,
        "weights": elements,
        "prefill_tokens_per_second": (10.0 * median(prefill)).round() / 10.0,
        "decode_tokens_per_second": (10.0 * median(decode)).round() / 10.0,
    });
    println!("{said}");
    Ok(())
}
