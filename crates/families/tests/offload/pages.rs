//! Weights and gradients beyond the device.

use super::{CONFIG, config, train, train_in_buckets};
use fascicle_families::families;
use tensor::MemoryKind;
use train::Config;

/// Every axis, gradients of several micro-batches, shards of state and of gradients, a backward that is split, parts that take
/// turns on a stage, and several versions of the weights.
const GRIDS: [&[&str]; 12] = [
    &[],
    &["training.micro_batches = 4", "training.recompute = true"],
    &[
        "parallel.grid = \"x=2,y=2\"",
        "parallel.sequence_parallel = true",
    ],
    &[
        "parallel.grid = \"z=2,data=2\"",
        "training.micro_batches = 2",
    ],
    &[
        "parallel.grid = \"x=2,data=2\"",
        "parallel.sharding = \"optimiser\"",
    ],
    &[
        "parallel.grid = \"data=3\"",
        "parallel.sharding = \"gradients\"",
        "training.batch = 12",
        "training.micro_batches = 2",
    ],
    &["parallel.grid = \"context=2\""],
    &[
        "parallel.grid = \"x=2,pipeline=2\"",
        "parallel.schedule = \"zb-h1\"",
        "training.micro_batches = 4",
    ],
    &[
        "parallel.grid = \"z=2,pipeline=2\"",
        "parallel.schedule = \"interleaved:2\"",
        "training.micro_batches = 4",
    ],
    &[
        "parallel.grid = \"pipeline=2\"",
        "parallel.schedule = \"pipedream-2bw\"",
        "training.micro_batches = 4",
    ],
    &[
        "parallel.grid = \"pipeline=2\"",
        "parallel.schedule = \"pipedream\"",
        "training.micro_batches = 4",
        "model.tied_head = false",
    ],
    &[
        "parallel.grid = \"pipeline=2\"",
        "parallel.schedule = \"message-driven\"",
        "training.micro_batches = 4",
    ],
];

// Each alone, and everything a run has.
const BEYOND: [&[&str]; 4] = [
    &["placement.weights = \"host\"", "placement.piece_kib = 3"],
    &["placement.gradients = \"files\"", "placement.piece_kib = 5"],
    &[
        "placement.weights = \"files\"",
        "placement.gradients = \"host\"",
    ],
    &[
        "placement.weights = \"files\"",
        "placement.gradients = \"files\"",
        "placement.optimiser = \"files\"",
        "placement.activations = \"files\"",
        "placement.piece_kib = 7",
    ],
];

/// Bytes of buckets of one parameter each, and of several.
const BUCKETS: [usize; 2] = [1, 40 << 10];

#[test]
fn the_bits_are_those_of_weights_and_gradients_on_the_device() {
    let kinds = [
        ["training.precision = \"f32\"", "model.dropout = 0.1"],
        [
            "training.precision = \"bf16\"",
            "training.optimiser = \"muon\"",
        ],
        [
            "training.precision = \"f32\"",
            "training.reproducible = \"run\"",
        ],
    ];
    for (number, grid) in GRIDS.into_iter().enumerate() {
        for (kind, edits) in kinds.into_iter().enumerate() {
            // Every grid meets every kind, both sizes and all placements, but not each combination of them.
            let bucket = BUCKETS[(number + kind) % 2];
            let edits = [grid, &edits[..]].concat();
            let folder = tempfile::tempdir().unwrap();
            let train = |edits: &[&str], name: &str| {
                let out = folder.path().join(name);
                train_in_buckets(&config(edits), bucket, 0..3, None, &out)
            };
            let on_device = train(&edits, "0").unwrap();
            for at in [0, 1].map(|more| (number + 2 * kind + more) % BEYOND.len()) {
                let what = format!("{edits:?}, {bucket}, {:?}", BEYOND[at]);
                let found = train(&[&edits, BEYOND[at]].concat(), &format!("beyond{at}"));
                let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(found.losses, on_device.losses, "{what}");
                assert_eq!(found.sha256, on_device.sha256, "{what}");
            }
        }
    }
}

#[test]
fn the_device_holds_a_few_buckets_whatever_the_depth() {
    let folder = tempfile::tempdir().unwrap();
    let peaks = |edits: &[&str]| {
        [3, 6, 9].map(|layers| {
            let layers = format!("model.layers = {layers}");
            let config = config(&[edits, &[&layers]].concat());
            let out = folder.path().join(&layers);
            let ended = train_in_buckets(&config, 8 << 10, 0..3, None, &out).unwrap();
            [MemoryKind::Weights, MemoryKind::Gradients]
                .map(|kind| ended.peak.by_kind[kind as usize])
        })
    };
    for grid in ["x=1", "z=2", "data=2"] {
        let grid = format!("parallel.grid = \"{grid}\"");
        for precision in ["f32", "bf16"] {
            let precision = format!("training.precision = \"{precision}\"");
            // Nodes of sums over the batch have memory beside that of buckets.
            let fixed = [&*grid, &precision, "training.reproducible = \"run\""];
            let there = peaks(&fixed);
            assert!(there[0][0] < there[1][0] && there[1][1] < there[2][1]);
            let [weights, gradients] = ["weights", "gradients"].map(|what| {
                let place = format!("placement.{what} = \"host\"");
                peaks(&[&fixed[..], &[&place]].concat())
            });
            // The largest buckets are the two matrices of an MLP, 40 x 160: three of them, in blocks that are rounded up.
            let z = if grid.contains('z') { 2 } else { 1 };
            for (found, bytes) in [
                (weights.map(|kinds| kinds[0]), 4),
                (gradients.map(|kinds| kinds[1]), 4),
            ] {
                let bytes = if precision.contains("bf16") && found[0] == weights[0][0] {
                    2
                } else {
                    bytes
                };
                let three = 3 * 40 * 160 * bytes / z;
                let is_few = |found: &usize| *found <= three * 9 / 8 && *found > three / 2;
                assert!(found.iter().all(is_few), "{found:?} of {three}");
            }
        }
    }
}

#[test]
fn a_model_four_times_larger_than_its_device_trains() {
    let large = [
        "model.layers = 24",
        "model.context = 16",
        "training.batch = 4",
    ];
    let beyond = [
        "placement.weights = \"files\"",
        "placement.gradients = \"files\"",
        "placement.optimiser = \"files\"",
        "placement.activations = \"files\"",
        "placement.piece_kib = 16",
    ];
    let folder = tempfile::tempdir().unwrap();
    for grid in ["x=1", "x=2,data=2"] {
        let grid = format!("parallel.grid = \"{grid}\"");
        let plain = [&large[..], &[&grid]].concat();
        let files = [&plain[..], &beyond].concat();
        let train = |edits: &[&str], name: &str| {
            let out = folder.path().join(name);
            train_in_buckets(&config(edits), 30 << 10, 0..3, None, &out)
        };
        let free = train(&plain, "free").unwrap();
        let need = train(&files, "need").unwrap().largest;
        assert!(4 * need < free.largest, "{need} of {}", free.largest);
        let limit = format!("device.memory_limit = {need}");
        let refused = train(&[&plain[..], &[&limit]].concat(), "refused").unwrap_err();
        assert!(refused.contains("out of memory"), "{refused}");
        let ended = train(&[&files[..], &[&limit]].concat(), "ended").unwrap();
        let (found, expected) = ((ended.losses, ended.sha256), (free.losses, free.sha256));
        assert_eq!(found, expected, "{grid}");
    }
}

#[test]
fn a_run_resumes_with_its_weights_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let whole = train(&config(&[]), 0..4, None, &path("whole")).unwrap();
    let mut from = None;
    let grids = ["x=2", "z=2,data=2", "pipeline=2", "x=1"];
    let places = [
        ["files", "device"],
        ["device", "host"],
        ["host", "host"],
        ["files", "files"],
    ];
    for (step, (grid, [weights, gradients])) in (0..4).zip(grids.into_iter().zip(places)) {
        let edits = [
            format!("parallel.grid = \"{grid}\""),
            format!("placement.weights = \"{weights}\""),
            format!("placement.gradients = \"{gradients}\""),
        ];
        let to = path(&format!("step{step}"));
        let config = config(&edits.each_ref().map(String::as_str));
        let ended = train_in_buckets(&config, 20 << 10, step..step + 1, from.as_deref(), &to);
        assert_eq!(ended.unwrap().losses, whole.losses[step as usize..][..1]);
        from = Some(to);
    }
    let ended = train(&config(&[]), 4..4, from.as_deref(), &path("end")).unwrap();
    assert_eq!(ended.sha256, whole.sha256);
}

#[test]
fn what_cannot_be_is_refused_before_the_first_step() {
    let refused = |edits: &[&str]| {
        let text = edits.join("\n");
        let config = Config::parse(&format!("{CONFIG}{text}"), &families()).unwrap();
        config.check().unwrap_err().to_string()
    };
    let mut factored = config(&["placement.gradients = \"host\""]);
    factored.training.optimiser = train::config::OptimiserKind::Adafactor;
    assert_eq!(
        factored.check().unwrap_err().to_string(),
        "placement.gradients: found host with means of rows and columns, needs device, or an optimiser other than adafactor"
    );
    let mut recorded = config(&["placement.weights = \"files\""]);
    recorded.training.graph = true;
    assert_eq!(
        recorded.check().unwrap_err().to_string(),
        "placement.weights: found files with training.graph, needs device"
    );
    let text = refused(&["[placement]", "piece_kib = 0"]);
    assert_eq!(text, "placement.piece_kib: found 0, needs at least 1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for what in ["weights", "gradients"] {
        let edits = [
            format!("placement.{what} = \"files\""),
            format!("placement.folder = \"{}\"", file.display()),
        ];
        let config = config(&edits.each_ref().map(String::as_str));
        let report = super::train(&config, 0..1, None, &folder.path().join("out")).unwrap_err();
        let text = format!("file of the {what} of rank 0 in {}: ", file.display());
        assert!(report.contains(&text), "{report}");
    }
}
