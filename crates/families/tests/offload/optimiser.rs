//! The optimiser's state beyond the device.

use super::{CONFIG, config, train};
use fascicle_families::families;
use parallel::data::UpdatePlace;
use tensor::MemoryKind;
use train::{Config, config::PlaceKind};

const GRIDS: [&[&str]; 5] = [
    &[],
    &["parallel.grid = \"z=2,data=2\""],
    &[
        "parallel.grid = \"x=2,data=2\"",
        "parallel.sharding = \"optimiser\"",
    ],
    &[
        "parallel.grid = \"data=3\"",
        "parallel.sharding = \"gradients\"",
        "training.batch = 6",
    ],
    &["parallel.grid = \"pipeline=2\""],
];

// Pieces of few elements, so that parameters begin and end within them.
const BEYOND: [&[&str]; 4] = [
    &["placement.optimiser = \"host\"", "placement.piece_kib = 3"],
    &["placement.optimiser = \"files\"", "placement.piece_kib = 5"],
    &[
        "placement.optimiser = \"host\"",
        "placement.piece_kib = 2",
        "placement.update = \"host\"",
    ],
    &[
        "placement.optimiser = \"files\"",
        "placement.piece_kib = 6",
        "placement.update = \"host\"",
    ],
];

#[test]
fn every_optimiser_has_the_bits_of_state_on_the_device() {
    for (number, optimiser) in ["adamw", "sgd", "lion", "muon"].into_iter().enumerate() {
        let optimiser = format!("training.optimiser = \"{optimiser}\"");
        for (index, grid) in GRIDS.into_iter().enumerate() {
            for precision in testkit::in_turn(number + index, ["f32", "bf16"]) {
                let precision = format!("training.precision = \"{precision}\"");
                let momentum = "training.momentum = 0.9";
                let edits = [&[&*optimiser, &precision, momentum], grid].concat();
                let folder = tempfile::tempdir().unwrap();
                let on_device =
                    train(&config(&edits), 0..3, None, &folder.path().join("0")).unwrap();
                // Whole matrices are not updated on the host.
                let places = if optimiser.contains("muon") { 2 } else { 4 };
                for (number, beyond) in BEYOND.into_iter().take(places).enumerate() {
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
}

#[test]
fn an_update_that_waits_for_no_norm_has_the_same_bits() {
    let schedules: [&[&str]; 2] = [
        &[
            "parallel.grid = \"pipeline=2\"",
            "parallel.schedule = \"zb-h1\"",
        ],
        &[
            "parallel.grid = \"pipeline=2,data=2\"",
            "parallel.schedule = \"interleaved:2\"",
        ],
    ];
    for precision in ["f32", "bf16"] {
        let precision = format!("training.precision = \"{precision}\"");
        for grid in GRIDS.into_iter().chain(schedules) {
            let fixed = [
                &*precision,
                "training.clip_norm = 0.0",
                "training.micro_batches = 2",
            ];
            let edits = [grid, &fixed].concat();
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("0");
            let on_device = train(&config(&edits), 0..3, None, &out).unwrap();
            for (number, beyond) in BEYOND[2..].iter().enumerate() {
                let config = config(&[&edits, *beyond].concat());
                let out = folder.path().join(format!("beyond{number}"));
                let found = train(&config, 0..3, None, &out).unwrap();
                let what = format!("{edits:?}, {beyond:?}");
                assert_eq!(found.losses, on_device.losses, "{what}");
                assert_eq!(found.sha256, on_device.sha256, "{what}");
            }
        }
    }
}

#[test]
fn a_run_resumes_with_its_state_anywhere() {
    let places: [&[&str]; 5] = [&[], BEYOND[0], BEYOND[1], BEYOND[2], BEYOND[3]];
    let grids = ["x=2", "data=2,pipeline=2"].map(|grid| format!("parallel.grid = \"{grid}\""));
    let fixed = ["training.precision = \"bf16\""];
    let folder = tempfile::tempdir().unwrap();
    let whole = train(&config(&[]), 0..4, None, &folder.path().join("whole")).unwrap();
    let first = train(&config(&[]), 0..2, None, &folder.path().join("first")).unwrap();
    for (number, place) in places.iter().enumerate() {
        for grid in &grids {
            let config = config(&[*place, &[grid.as_str()]].concat());
            let (from, to) = (
                folder.path().join("first"),
                folder.path().join(format!("{number}{grid}")),
            );
            let ended = train(&config, 2..4, Some(&from), &to).unwrap();
            assert_eq!(
                [&first.losses[..], &ended.losses].concat(),
                whole.losses,
                "{place:?}, {grid}"
            );
            assert_eq!(ended.sha256, whole.sha256, "{place:?}, {grid}");
        }
    }
    // With weights in two types, on from each place to the next.
    let edits = |place: &[&'static str]| [&fixed[..], place].concat();
    let order = [3, 0, 4, 1, 2, 3].map(|place| places[place]);
    let steps = order.len() as u64;
    let whole = train(
        &config(&edits(places[0])),
        0..steps,
        None,
        &folder.path().join("wide"),
    )
    .unwrap();
    let mut from: Option<std::path::PathBuf> = None;
    let mut last = None;
    for (step, place) in (0..steps).zip(order) {
        let to = folder.path().join(format!("step{step}"));
        last = Some(train(&config(&edits(place)), step..step + 1, from.as_deref(), &to).unwrap());
        from = Some(to);
    }
    assert_eq!(last.unwrap().sha256, whole.sha256);
}

#[test]
fn the_device_holds_two_pieces_of_the_state() {
    let optimiser = MemoryKind::Optimiser as usize;
    let folder = tempfile::tempdir().unwrap();
    for (precision, kib, num_tensors) in [("f32", 4, 2), ("bf16", 12, 3)] {
        let precision = format!("training.precision = \"{precision}\"");
        let kib_text = format!("placement.piece_kib = {kib}");
        for grid in GRIDS {
            let mut edits = [&[&*precision, &kib_text], grid].concat();
            let on_device = train(&config(&edits), 0..2, None, &folder.path().join("0")).unwrap();
            let [weights, gradients] = [0, 1].map(|kind| on_device.peak.by_kind[kind]);
            if num_tensors == 2 && grid.len() < 2 {
                // Each state has the elements and the type of the weights.
                assert_eq!(on_device.peak.by_kind[optimiser], 2 * weights);
            }
            edits.push("placement.optimiser = \"files\"");
            let beyond = train(&config(&edits), 0..2, None, &folder.path().join("1")).unwrap();
            if beyond.peak.rank == on_device.peak.rank {
                let found = beyond.peak.by_kind;
                assert_eq!(found[0], weights, "{grid:?}");
                // While a stream still reads a freed block, another one is taken, which may be up to an eighth larger.
                let apart = found[1].abs_diff(gradients);
                assert!(apart <= gradients / 100, "{grid:?}: {found:?}, {gradients}");
            }
            assert_eq!(beyond.peak.by_kind[optimiser], 2 * (kib << 10), "{grid:?}");
        }
    }
}

#[test]
fn the_device_holds_none_of_the_state_that_the_host_updates() {
    let optimiser = MemoryKind::Optimiser as usize;
    let folder = tempfile::tempdir().unwrap();
    for precision in ["f32", "bf16"] {
        let precision = format!("training.precision = \"{precision}\"");
        for grid in GRIDS {
            let edits = [&[&*precision], grid].concat();
            let on_device = train(&config(&edits), 0..2, None, &folder.path().join("0")).unwrap();
            let edits = [&edits, BEYOND[2]].concat();
            let on_host = train(&config(&edits), 0..2, None, &folder.path().join("1")).unwrap();
            assert_eq!(on_host.state, 0, "{edits:?}");
            // Two moments, and the weights in f32.
            let of_state = match precision.contains("f32") {
                true => on_device.state / 2 * 3,
                false => on_device.state,
            };
            assert_eq!(on_host.host[optimiser], of_state, "{edits:?}");
            // Gradients and weights of two pieces, each of at most 2 KiB of gradients.
            let buffers = on_host.host[MemoryKind::Buffers as usize];
            assert!((1..=2 * (2 << 10) * 2).contains(&buffers), "{buffers}");
        }
    }
}

#[test]
fn a_run_that_has_no_room_for_its_state_trains_with_it_in_files() {
    let folder = tempfile::tempdir().unwrap();
    for grid in ["x=1", "z=2,data=2"] {
        let grid = format!("parallel.grid = \"{grid}\"");
        let plain = [&*grid, "model.hidden = 64"];
        let files = [
            &plain[..],
            &[
                "placement.optimiser = \"files\"",
                "placement.piece_kib = 16",
            ],
        ]
        .concat();
        let free = train(&config(&plain), 0..3, None, &folder.path().join("0")).unwrap();
        let need = train(&config(&files), 0..3, None, &folder.path().join("1"))
            .unwrap()
            .largest;
        assert!(need < free.largest, "{need} of {}", free.largest);
        let limit = format!("device.memory_limit = {need}");
        let refused = train(
            &config(&[&plain[..], &[&limit]].concat()),
            0..3,
            None,
            &folder.path().join("2"),
        );
        let refused = refused.unwrap_err();
        assert!(refused.contains("out of memory"), "{refused}");
        let ended = train(
            &config(&[&files[..], &[&limit]].concat()),
            0..3,
            None,
            &folder.path().join("3"),
        )
        .unwrap();
        assert_eq!(
            (ended.losses, ended.sha256),
            (free.losses, free.sha256),
            "{grid}"
        );
    }
}

#[test]
fn what_cannot_be_is_refused_before_the_first_step() {
    let refused = |text: &str| {
        let config = Config::parse(&format!("{CONFIG}{text}"), &families()).unwrap();
        config.check().unwrap_err().to_string()
    };
    assert_eq!(
        refused("[placement]\npiece_kib = 0"),
        "placement.piece_kib: found 0, needs at least 1"
    );
    let mut coded = config(&["placement.optimiser = \"files\""]);
    coded.training.optimiser = train::config::OptimiserKind::AdamW8bit;
    assert_eq!(
        coded.check().unwrap_err().to_string(),
        "placement.optimiser: found files with 8-bit state, needs device, or an optimiser other than adamw8bit"
    );
    coded.training.optimiser = train::config::OptimiserKind::Adafactor;
    assert_eq!(
        coded.check().unwrap_err().to_string(),
        "placement.optimiser: found files with means of rows and columns, needs device, or an optimiser other than adafactor"
    );
    let mut on_host = config(&[]);
    on_host.placement.update = UpdatePlace::Host;
    assert_eq!(
        on_host.check().unwrap_err().to_string(),
        "placement.update: found host with state on the device, needs device, or placement.optimiser = \"host\" or \"files\""
    );
    on_host.placement.optimiser = PlaceKind::Files;
    on_host.training.optimiser = train::config::OptimiserKind::Muon;
    assert_eq!(
        on_host.check().unwrap_err().to_string(),
        "placement.update: found host with matrices that are updated as a whole, needs device, or an optimiser other than muon"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let edits = [
        "placement.optimiser = \"files\"",
        &format!("placement.folder = \"{}\"", file.display()),
    ];
    let report = train(&config(&edits), 0..1, None, &folder.path().join("out")).unwrap_err();
    let text = format!(
        "file of the optimiser's state of rank 0 in {}: ",
        file.display()
    );
    assert!(
        report.contains(&text) && report.contains("needs room for "),
        "{report}"
    );
}

#[test]
fn two_runs_share_a_folder_and_leave_nothing_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("state");
    let edits = [
        "placement.optimiser = \"files\"".to_owned(),
        format!("placement.folder = \"{}\"", shared.display()),
        "parallel.grid = \"data=2\"".to_owned(),
    ];
    let config = config(&edits.each_ref().map(String::as_str));
    let ended = std::thread::scope(|scope| {
        let run = |name: &str| {
            let (config, out) = (&config, folder.path().join(name));
            scope.spawn(move || train(config, 0..3, None, &out).unwrap())
        };
        ["one", "other"]
            .map(run)
            .map(|run| run.join().unwrap().sha256)
    });
    assert_eq!(ended[0], ended[1]);
    assert_eq!(std::fs::read_dir(&shared).unwrap().count(), 0);
}
