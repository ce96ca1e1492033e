use super::*;
use clap::Parser;

const SIZES: Sizes = Sizes {
    tokens: 64,
    hidden: 32,
    heads: 2,
    context: 16,
    document: Some(3),
    vocabulary: 40,
};

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    kernels: Kernels,
}

fn parsed(arguments: &[&str]) -> Kernels {
    Program::try_parse_from([&["kernels"], arguments].concat())
        .unwrap()
        .kernels
}

fn refused(arguments: &[&str]) -> String {
    parsed(arguments)
        .check()
        .unwrap_err()
        .sentence()
        .unwrap()
        .to_owned()
}

#[test]
fn options_are_checked_before_anything_is_measured() {
    let kernels = parsed(&[
        "--precision",
        "bf16",
        "--tokens",
        "512",
        "--repetitions",
        "3",
        "--json",
    ]);
    assert_eq!(
        (kernels.check(), kernels.json, kernels.repetitions),
        (Ok(()), true, 3)
    );
    assert_eq!(
        (kernels.precision.dtype(), kernels.sizes.tokens),
        (DType::Bf16, 512)
    );
    assert_eq!(
        refused(&["--tokens", "300"]),
        "--tokens: found 300, needs a multiple of 256, which is --context"
    );
    assert_eq!(
        refused(&["--heads", "3"]),
        "--hidden: found 512, needs a multiple of 3, which is --heads"
    );
    for [option, value, needed] in [
        ["--repetitions", "0", "from 1 to 65536"],
        ["--vocabulary", "4294967296", "from 1 to 16777216"],
        ["--precision", "f8", "possible values"],
    ] {
        let refused = Program::try_parse_from(["kernels", option, value]).map(|_| ());
        let sentence = refused.unwrap_err().to_string();
        assert!(sentence.contains(needed), "{sentence}");
    }
}

#[test]
fn a_line_of_json_has_what_its_kernel_has() {
    let seconds = Spread {
        median: 2e-6,
        min: 1e-6,
        max: 4e-6,
    };
    let measured = Measured {
        seconds,
        bytes: 8000,
    };
    let json = |line: &Line| serde_json::to_value(line).unwrap();
    let add = json(&Line::of("add", "elementwise", "bf16", measured, 5.0));
    assert_eq!(
        add,
        serde_json::json!({
            "kernel": "add", "family": "elementwise", "dtype": "bf16", "microseconds": 2.0, "low": 1.0, "high": 4.0,
            "bytes": 8000, "gb_per_s": 4.0, "share_of_copy": 0.8
        })
    );
    let attention =
        json(&Line::of("attention 64", "attention", "bf16", measured, 5.0).of_matmuls(1.5));
    assert_eq!(
        (attention.get("share_of_copy"), &attention["tflop_per_s"]),
        (None, &serde_json::json!(1.5))
    );
    let launch = json(&Line::timed("launch queued", seconds));
    assert_eq!(
        (launch.get("bytes"), &launch["microseconds"]),
        (None, &serde_json::json!(2.0))
    );
    assert_eq!(
        Line::of("add", "elementwise", "bf16", measured, 5.0).text(),
        "add                             2.000 us  [1.000 .. 4.000]  4.0 GB/s = 80 % of a copy"
    );
}

#[test]
fn every_kernel_has_a_name_of_its_own() {
    let names = |dtype| {
        SIZES
            .cases(dtype)
            .into_iter()
            .map(|case| case.name)
            .collect::<Vec<_>>()
    };
    let mut found = names(DType::Bf16);
    assert!(found.contains(&"cast".to_owned()) && !names(DType::F32).contains(&"cast".to_owned()));
    let count = found.len();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), count);
}

// On the CPU, because the counts come from the tensors themselves.
#[test]
fn each_operand_moves_once_and_an_updated_one_twice() {
    let options = hal::OpenOptions::default();
    let device = Device::new((cpu::driver().open)(options).unwrap()).unwrap();
    let maker = Maker {
        device: &device,
        dtype: DType::Bf16,
    };
    let cases = SIZES.cases(DType::Bf16);
    let bytes = |name: &str| {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        case.measure(&maker, 1).unwrap().bytes
    };
    let (tokens, hidden, mlp, llama, vocabulary) = (64, 32, 128, 88, 40);
    let (stream, inner, gated) = (2 * tokens * hidden, 2 * tokens * mlp, 2 * tokens * llama);
    let (moments, ids, row) = (4 * tokens * 2, 4 * tokens, 2 * hidden);
    let different = maker.ids(tokens, vocabulary).unwrap().1;
    assert!((2..=vocabulary).contains(&different));
    let weights = 4 * hidden * hidden + 2 * hidden * mlp;
    let coded = hidden * mlp;
    let (texts, pages) = (4, 1);
    for (name, expected) in [
        ("add", 3 * stream),
        ("add_bias", 2 * inner + 2 * mlp),
        ("gelu", 2 * inner),
        ("gelu backward", 3 * inner),
        ("swiglu", 3 * gated),
        ("swiglu backward", 5 * gated),
        ("dropout", 2 * stream),
        ("cast", stream + 2 * stream),
        ("dequantise int8", coded + 4 * hidden * mlp / 64 + 2 * coded),
        (
            "dequantise nf4",
            coded / 2 + 4 * hidden * mlp / 64 + 2 * coded,
        ),
        (
            "quantised_matmul int8",
            coded + 4 * hidden * mlp / 64 + 2 * hidden + 2 * mlp,
        ),
        (
            "quantised_matmul nf4",
            coded / 2 + 4 * hidden * mlp / 64 + 2 * hidden + 2 * mlp,
        ),
        ("store_pages", 4 * texts + 4 * (2 * texts * hidden)),
        (
            "paged_attention",
            2 * (2 * tokens * hidden) + 2 * (2 * texts * hidden) + 4 * texts * (pages + 2),
        ),
        ("layer_norm", 2 * stream + moments + 2 * row),
        (
            "layer_norm backward",
            3 * stream + moments + row + 2 * 2 * (4 * hidden),
        ),
        (
            "layer_norm backward and sum",
            4 * stream + moments + row + 2 * 2 * (4 * hidden),
        ),
        ("rms_norm", 2 * stream + moments + row),
        (
            "rms_norm backward",
            3 * stream + moments + row + 2 * (4 * hidden),
        ),
        (
            "rms_norm backward and sum",
            4 * stream + moments + row + 2 * (4 * hidden),
        ),
        ("column_sum", inner + 2 * (4 * mlp)),
        ("embedding", ids + different * row + stream),
        (
            "embedding backward",
            ids + stream + 2 * different * (4 * hidden),
        ),
        (
            "cross_entropy",
            2 * tokens * vocabulary + ids + 4 * tokens + 4,
        ),
        (
            "cross_entropy backward",
            2 * 2 * tokens * vocabulary + ids + 4 * tokens + 4,
        ),
        ("sum_squares", 4 * weights + 2 * 8),
        ("exact_squares", 4 * weights + 8 + 2 * 3 * 8),
        (
            "adamw",
            4 * weights + 3 * 2 * (4 * weights) + 2 * weights + 2 * 8,
        ),
        // With the start of each token's document.
        ("attention 16", 4 * stream + 4 * tokens * 2 + ids),
        ("attention 16 backward", 8 * stream + 4 * tokens * 2 + ids),
    ] {
        assert_eq!(bytes(name), expected, "{name}");
    }
    assert_eq!(cases.len(), 32);
}
