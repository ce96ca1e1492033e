use super::*;
use std::{cell::Cell, thread};

const NOW: u64 = 1_800_000_000;

fn subject() -> Subject {
    Subject {
        format: FORMAT,
        host: "node 7".into(),
        processor: "One".into(),
        cores: 4,
        vendor: "cpu".into(),
        devices: vec!["One, AVX2".into()],
    }
}

fn kept(folder: &Path, subject: Subject, now: u64) -> Kept {
    Kept {
        path: Some(folder.join("cache").join(subject.file_name())),
        subject,
        now,
    }
}

fn measured(name: &str) -> Machine {
    Machine {
        name: name.into(),
        ..Machine::find("laptop").unwrap()
    }
}

// Whether the machine is measured; what is returned is always complete.
fn measures(kept: &Kept) -> bool {
    let times = Cell::new(0);
    let machine = kept.description(|name| {
        times.set(times.get() + 1);
        Ok(measured(name))
    });
    assert_eq!(machine.unwrap(), measured("node 7"));
    times.get() == 1
}

#[test]
fn a_machine_is_measured_once_and_again_when_it_is_old() {
    let dir = tempfile::tempdir().unwrap();
    assert!(measures(&kept(dir.path(), subject(), NOW)));
    let days = |days: u64| kept(dir.path(), subject(), NOW + days * calendar::DAY);
    assert!(!measures(&days(0)) && !measures(&days(29)));
    let why = days(30).read().unwrap_err();
    assert_eq!(
        why,
        "the measurement of 2027-01-15 08:00 UTC is 30 days old"
    );
    assert!(measures(&days(30)));
    // The file is the new one from now on.
    assert!(!measures(&days(59)));
}

#[test]
fn whatever_was_measured_differently_is_measured_again() {
    let dir = tempfile::tempdir().unwrap();
    let first = kept(dir.path(), subject(), NOW);
    assert!(measures(&first));
    type Change = fn(&mut Subject);
    let changes: [(Change, &str); 6] = [
        (
            |subject| subject.format += 1,
            "found descriptions of format 2, measured was descriptions of format 1",
        ),
        (
            |subject| subject.host = "node 8".into(),
            "found host node 8, measured was host node 7",
        ),
        (
            |subject| subject.processor = "Two".into(),
            "found processor Two, measured was processor One",
        ),
        (
            |subject| subject.cores = 1,
            "found 1 core, measured was 4 cores",
        ),
        (
            |subject| subject.vendor = "rocm".into(),
            "found vendor rocm, measured was vendor cpu",
        ),
        (
            |subject| subject.devices.push("Two".into()),
            "found devices One, AVX2; Two, measured was devices One, AVX2",
        ),
    ];
    for (change, needed) in changes {
        let mut other = subject();
        change(&mut other);
        // Even if the files of two subjects had one name.
        let other = Kept {
            path: first.path.clone(),
            subject: other,
            now: NOW,
        };
        assert_eq!(other.read().unwrap_err(), needed);
    }
}

#[test]
fn hosts_cores_and_vendors_of_one_home_have_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let others = [
        subject(),
        Subject {
            cores: 8,
            ..subject()
        },
        Subject {
            vendor: "cuda".into(),
            ..subject()
        },
    ];
    let files = others.clone().map(|subject| subject.file_name());
    assert_eq!(
        files,
        [
            "machine-node-7-cpu-4.toml",
            "machine-node-7-cpu-8.toml",
            "machine-node-7-cuda-4.toml"
        ]
    );
    for subject in &others {
        assert!(measures(&kept(dir.path(), subject.clone(), NOW)));
    }
    for subject in others {
        assert!(!measures(&kept(dir.path(), subject, NOW)));
    }
}

#[test]
fn a_kept_file_is_a_machine_description() {
    let dir = tempfile::tempdir().unwrap();
    let kept = kept(dir.path(), subject(), NOW);
    assert!(measures(&kept));
    let path = kept.path.clone().unwrap();
    let found = Machine::find(&path.to_string_lossy()).unwrap();
    assert_eq!(found, measured("node 7"));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("#: host = \"node 7\"\n"), "{text}");
    // A description that nobody measured here, and damaged ones, are not used.
    for damaged in [found.to_toml(), text[..text.len() / 2].into(), "\0".into()] {
        fs::write(&path, damaged).unwrap();
        assert!(measures(&kept));
    }
}

#[test]
fn a_folder_that_cannot_be_written_costs_no_run() {
    let dir = tempfile::tempdir().unwrap();
    // A file where the folder should be: root, too, is refused.
    fs::write(dir.path().join("cache"), "").unwrap();
    let refused = kept(dir.path(), subject(), NOW);
    assert!(measures(&refused) && measures(&refused));
    let homeless = Kept {
        path: None,
        subject: subject(),
        now: NOW,
    };
    assert_eq!(
        homeless.read().unwrap_err(),
        "neither XDG_CACHE_HOME nor HOME is set"
    );
    assert!(measures(&homeless) && measures(&homeless));
}

#[test]
fn runs_beside_each_other_read_whole_files() {
    let dir = tempfile::tempdir().unwrap();
    kept(dir.path(), subject(), NOW)
        .write(&measured("node 7"))
        .unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let kept = kept(dir.path(), subject(), NOW);
                    kept.write(&measured("node 7")).unwrap();
                }
            });
        }
        for _ in 0..200 {
            let (machine, time) = kept(dir.path(), subject(), NOW).read().unwrap();
            assert_eq!((machine, time), (measured("node 7"), NOW));
        }
    });
    // Nothing is left aside.
    assert_eq!(fs::read_dir(dir.path().join("cache")).unwrap().count(), 1);
}
