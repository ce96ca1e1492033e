//! Activations beyond the device.

use super::{CONFIG, config, train};
use bootstrap::local::{Options, run};
use fascicle_families::families;
use tensor::Device;
use train::Config;

/// Every axis, several micro-batches in flight, a backward that is split, parts that take turns on a stage, and tokens cut over
/// ranks.
const GRIDS: [&[&str]; 9] = [
    &[],
    &["parallel.grid = \"x=2,y=2\""],
    &[
        "parallel.grid = \"z=2,data=2\"",
        "training.micro_batches = 2",
    ],
    &[
        "parallel.grid = \"x=2,data=2\"",
        "parallel.sharding = \"gradients\"",
        "parallel.sequence_parallel = true",
    ],
    &["parallel.grid = \"context=2\""],
    &[
        "parallel.grid = \"context=2\"",
        "parallel.context_attention = \"heads\"",
    ],
    &[
        "parallel.grid = \"pipeline=2\"",
        "parallel.schedule = \"1f1b\"",
        "training.micro_batches = 4",
    ],
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
];

// Pieces that cut tensors, and pieces of several tensors.
const BEYOND: [&[&str]; 2] = [
    &[
        "placement.activations = \"host\"",
        "placement.piece_kib = 3",
    ],
    &[
        "placement.activations = \"files\"",
        "placement.piece_kib = 64",
    ],
];

#[test]
fn the_bits_are_those_of_activations_on_the_device() {
    let all = [
        ["training.recompute = false", "model.dropout = 0.1"],
        ["training.recompute = true", "training.precision = \"bf16\""],
    ];
    for (number, grid) in GRIDS.into_iter().enumerate() {
        for settings in testkit::in_turn(number, all) {
            let edits = [grid, &settings[..]].concat();
            let folder = tempfile::tempdir().unwrap();
            let on_device = train(&config(&edits), 0..3, None, &folder.path().join("0")).unwrap();
            for (number, beyond) in BEYOND.into_iter().enumerate() {
                let config = config(&[&edits, beyond].concat());
                let out = folder.path().join(format!("beyond{number}"));
                let found = train(&config, 0..3, None, &out).unwrap();
                let what = format!("{edits:?}, {beyond:?}");
                assert_eq!(found.losses, on_device.losses, "{what}");
                assert_eq!(found.sha256, on_device.sha256, "{what}");
            }
        }
    }
}

// Segments that stay between those that leave for either place, recomputed ones beside them and within a block, and neighbours
// that are recomputed as one because their inputs are in the same place.
const MIXED: [&[&str]; 4] = [
    &[
        "training.recompute = [\"attention\"]",
        "placement.activations = { host = [\"mlp\"] }",
    ],
    &[
        "training.recompute = [\"1-2\", 6]",
        "placement.activations = { host = [\"1-2\", \"4\"], files = [\"3\", \"6-7\"] }",
    ],
    &[
        "training.recompute = [\"mlp\"]",
        "placement.activations = { files = [\"embedding\", \"mlp\"] }",
    ],
    &["placement.activations = { host = [\"2\"], files = [\"5\"] }"],
];

#[test]
fn segments_that_differ_in_their_memory_have_the_bits_of_those_that_do_not() {
    let all = [
        ["model.dropout = 0.1", "training.precision = \"f32\""],
        ["model.dropout = 0.0", "training.precision = \"bf16\""],
    ];
    for (number, grid) in GRIDS.into_iter().enumerate() {
        for settings in testkit::in_turn(number, all) {
            let edits = [grid, &settings[..], &["placement.piece_kib = 3"]].concat();
            let folder = tempfile::tempdir().unwrap();
            let plain = train(&config(&edits), 0..3, None, &folder.path().join("0")).unwrap();
            for (number, mixed) in MIXED.into_iter().enumerate() {
                let config = config(&[&edits, mixed].concat());
                let out = folder.path().join(format!("mixed{number}"));
                let found = train(&config, 0..3, None, &out).unwrap();
                let what = format!("{edits:?}, {mixed:?}");
                assert_eq!(found.losses, plain.losses, "{what}");
                assert_eq!(found.sha256, plain.sha256, "{what}");
            }
        }
    }
}

#[test]
fn a_checkpoint_resumes_with_another_memory_of_each_segment() {
    let folder = tempfile::tempdir().unwrap();
    let whole = train(&config(&[]), 0..4, None, &folder.path().join("whole")).unwrap();
    let first = config(MIXED[1]);
    let (half, end) = (folder.path().join("first"), folder.path().join("end"));
    train(&first, 0..2, None, &half).unwrap();
    let other = config(MIXED[2]);
    let ended = train(&other, 2..4, Some(&half), &end).unwrap();
    assert_eq!(ended.sha256, whole.sha256);
}

#[test]
fn each_segment_takes_the_memory_of_its_choice() {
    let folder = tempfile::tempdir().unwrap();
    let peak = |name: &str, edits: &[&str]| {
        let edits = [&LARGE[..], edits].concat();
        let out = folder.path().join(name);
        train(&config(&edits), 0..2, None, &out)
            .unwrap()
            .activations
    };
    let stay = peak("stay", &[]);
    let all = peak("all", &["placement.activations = \"host\""]);
    // Of 22 segments, those of the last blocks leave.
    let half = peak("half", &["placement.activations = { host = [\"11-20\"] }"]);
    let most = peak("most", &["placement.activations = { host = [\"3-20\"] }"]);
    assert!(
        all < most && most < half && half < stay,
        "{all} {most} {half} {stay}"
    );
    let recompute = |those: &str| {
        let name = format!("recompute {those}");
        peak(&name, &[&format!("training.recompute = {those}")])
    };
    let [none, attention, mlp, all] =
        ["false", "[\"attention\"]", "[\"mlp\"]", "true"].map(recompute);
    assert_eq!(none, stay);
    assert!(
        all < attention.min(mlp) && attention.max(mlp) < none,
        "{all} {attention} {mlp}"
    );
}

/// Bytes of activations at their peak, for each of these depths.
fn peaks(edits: &[&str]) -> [usize; 3] {
    let folder = tempfile::tempdir().unwrap();
    [4, 6, 8].map(|layers| {
        let layers = format!("model.layers = {layers}");
        let config = config(&[edits, &[&layers]].concat());
        train(&config, 0..2, None, &folder.path().join(layers))
            .unwrap()
            .activations
    })
}

#[test]
fn the_device_holds_the_activations_of_two_segments_whatever_the_depth() {
    for grid in [&[][..], &["parallel.grid = \"x=2\""]] {
        for recompute in ["training.recompute = false", "training.recompute = true"] {
            let edits = [grid, &[recompute]].concat();
            let there = peaks(&edits);
            assert_eq!(there[2] - there[1], there[1] - there[0], "{edits:?}");
            assert!(there[1] > there[0], "{edits:?}");
            let [host, files] = BEYOND.map(|beyond| peaks(&[&edits, beyond].concat()));
            assert_eq!(host, [host[0]; 3], "{edits:?}");
            assert_eq!(files, host, "{edits:?}");
            assert!(host[0] < there[0], "{edits:?}");
        }
    }
}

/// A deep model with long rows, whose activations are most of its memory.
const LARGE: [&str; 3] = [
    "model.layers = 10",
    "training.batch = 16",
    "parallel.bucket_mib = 1",
];

#[test]
fn a_run_trains_with_three_fifths_of_the_memory_that_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let all_in_files = [
        "placement.activations = \"files\"",
        "placement.optimiser = \"files\"",
        "placement.piece_kib = 16",
    ];
    for grid in ["x=1", "x=2"] {
        let grid = format!("parallel.grid = \"{grid}\"");
        let plain = [&LARGE[..], &[&grid]].concat();
        let free = train(&config(&plain), 0..3, None, &folder.path().join("0")).unwrap();
        let limit = format!("device.memory_limit = {}", free.largest * 3 / 5);
        let refused = train(
            &config(&[&plain[..], &[&limit]].concat()),
            0..3,
            None,
            &folder.path().join("1"),
        );
        let refused = refused.unwrap_err();
        assert!(refused.contains("out of memory"), "{refused}");
        let edits = [&plain[..], &all_in_files, &[&limit]].concat();
        let ended = train(&config(&edits), 0..3, None, &folder.path().join("2")).unwrap();
        assert_eq!(
            (ended.losses, ended.sha256),
            (free.losses, free.sha256),
            "{grid}"
        );
    }
}

#[test]
fn what_cannot_be_is_refused_before_the_first_step() {
    let text = "[placement]\nactivations = \"host\"\n";
    let mut recorded = Config::parse(&format!("{CONFIG}{text}"), &families()).unwrap();
    recorded.training.graph = true;
    assert_eq!(
        recorded.check().unwrap_err().to_string(),
        "placement.activations: found host with training.graph, needs device"
    );
    let refused = |text: &str| {
        let config = Config::parse(&format!("{CONFIG}{text}"), &families());
        config.map_or_else(
            |error| error.to_string(),
            |config| config.check().unwrap_err().to_string(),
        )
    };
    assert_eq!(
        refused("[placement]\nactivations = { host = [\"mpl\"] }\n"),
        "placement.activations: found `mpl`, needs a kind of segment (embedding, attention, mlp, head) or numbers from 0 to 7"
    );
    assert_eq!(
        refused("[placement]\nactivations = { host = [\"mlp\"], files = [\"3-4\"] }\n"),
        "placement.activations: found segment 4 (mlp) on the host and in files, needs one place for each segment"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let edits = [
        "placement.activations = \"files\"",
        &format!("placement.folder = \"{}\"", file.display()),
    ];
    let report = train(&config(&edits), 0..1, None, &folder.path().join("out")).unwrap_err();
    let text = format!("file of the activations of rank 0 in {}: ", file.display());
    assert!(report.contains(&text), "{report}");
}

/// Bytes of the files without a name that this process has in a folder.
fn unnamed_files(folder: &std::path::Path) -> Vec<u64> {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_there = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.starts_with(folder))
    };
    let files = open.map(|entry| entry.unwrap().path()).filter(is_there);
    files
        .map(|path| std::fs::metadata(path).unwrap().len())
        .collect()
}

#[test]
fn the_space_of_all_activations_is_reserved_before_the_first_step() {
    let grids = ["x=2", "x=2,pipeline=2", "context=2,pipeline=2"];
    let (all, some) = ("\"files\"", "{ host = [\"attention\"], files = [\"mlp\"] }");
    let choices = [(false, all), (true, all), (false, some)];
    for (grid, (recompute, places)) in grids.into_iter().zip(choices) {
        let folder = tempfile::tempdir().unwrap();
        let config = config(&[
            &format!("parallel.grid = \"{grid}\""),
            &format!("training.recompute = {recompute}"),
            "training.micro_batches = 4",
            &format!("placement.activations = {places}"),
            "placement.piece_kib = 5",
            &format!("placement.folder = \"{}\"", folder.path().display()),
        ]);
        let (path, ranks) = (
            folder.path().to_owned(),
            config.grid().unwrap().world_size(),
        );
        let used = run(Options::new(ranks), move |world| {
            let device = Device::new(cpu::open(cpu::Options::default())?)?;
            let context = config.context(&world, &device)?;
            let trainer = config.trainer(&context)?;
            let everyone = world.everyone();
            everyone.barrier()?;
            let before = unnamed_files(&path);
            everyone.barrier()?;
            for step in 0..2 {
                let rows = |rows: std::ops::Range<usize>| Ok(config.model.blank_rows(rows.len()));
                drop(trainer.gradients(&trainer.batch_of(step, rows)?)?);
            }
            everyone.barrier()?;
            assert_eq!(before, unnamed_files(&path));
            everyone.barrier()?;
            let [_, used] = trainer.pipeline().activation_bytes_beyond();
            assert!(before.contains(&used), "{used} of {before:?}");
            Ok::<_, train::Error>(used)
        });
        let used = used.unwrap_or_else(|failure| panic!("{}", failure.report()));
        assert!(used.iter().all(|bytes| *bytes > 0), "{used:?}");
    }
}
