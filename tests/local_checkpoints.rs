//! Checkpoints on the nodes' own disks: what they survive, and what comes of them.

use hal::lock;
use std::{
    fs,
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use testkit::{Watched, config, config_of_bytes, digest_of, fixed_batch, ranks_on, run_of_bytes};
use train::{
    Config, Error, Observer, Stop, Summary,
    batches::Batches,
    checkpoint::path_of_step,
    config::Precision,
    run::{Resume, Run, recover_local, run},
    trainer::{Attached, CheckpointDone, CheckpointWriter, LocalFolder, Recovery, recover},
};

/// Nodes of ranks, and a grid on which these hold copies, shards and stages.
const JOBS: [(&[usize], &str); 5] = [
    (&[0, 0, 1, 1], "x=2,data=2"),
    (&[0, 1, 0, 1], "z=2,pipeline=2"),
    (&[0, 1, 2, 3], "y=2,data=2"),
    (&[0, 0, 1, 2], "data=2,pipeline=2"),
    (&[0, 1, 1, 1], "data=4"),
];

fn on(grid: &str) -> Config {
    let mut config = config(Precision::F32);
    config.parallel.grid = grid.parse().unwrap();
    hold_shards(&mut config);
    config
}

/// Replicas hold shards of the state, and ranks have files of what no step changes too.
fn hold_shards(config: &mut Config) {
    config.parallel.sharding = parallel::data::Sharding::Optimiser;
    config.tuning.frozen = vec!["blocks.*".into()];
}

/// A job that has written local checkpoints of some steps, and ended there. `own` holds, of each step, what the run's own
/// checkpoints would be.
struct Ended {
    dir: tempfile::TempDir,
    nodes: usize,
    steps: u64,
}

impl Ended {
    fn of(job: (&[usize], &'static str)) -> Ended {
        Ended::after(3, job)
    }

    fn after(steps: u64, (nodes, grid): (&[usize], &'static str)) -> Ended {
        let dir = tempfile::tempdir().unwrap();
        let (local, own) = (dir.path().join("local"), dir.path().join("own"));
        ranks_on(nodes, move |world, device| {
            let config = on(grid);
            let mut trainer = config.trainer(&config.context(&world, &device)?)?;
            let mut writer = CheckpointWriter::local(&trainer, &LocalFolder::new(&local))?;
            for step in 0..steps {
                trainer.step(&fixed_batch(&trainer, &config, step)?)?;
                writer.begin(&trainer, &Attached::default())?;
                trainer.save(&own)?;
            }
            writer.finish().map(drop)
        });
        Ended {
            dir,
            nodes: nodes.iter().max().unwrap() + 1,
            steps,
        }
    }

    fn own(&self, step: u64) -> PathBuf {
        path_of_step(&self.dir.path().join("own"), step)
    }

    fn folder(&self) -> LocalFolder {
        LocalFolder::new(self.dir.path().join("local"))
    }

    fn part(&self, node: usize) -> PathBuf {
        path_of_step(&self.folder().of_node(node), self.steps)
    }

    /// The shards that a node has.
    fn shards(&self, node: usize) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.part(node)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut shards: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|end| end == "safetensors"))
            .collect();
        shards.sort();
        shards
    }

    /// What the next job finds, on these nodes.
    fn recover(&self, nodes: &[usize]) -> Recovery {
        let (into, folder) = (self.dir.path().join("run"), self.folder());
        let found = ranks_on(nodes, move |world, _| recover(&world, &into, &folder));
        let first = found[0].clone();
        assert!(found.iter().all(|other| *other == first), "{found:?}");
        first
    }
}

#[test]
fn a_lost_node_loses_nothing() {
    for job in JOBS {
        let num_nodes = job.0.iter().max().unwrap() + 1;
        // None, and each one; of two pairs, one of each.
        let mut losses: Vec<Vec<usize>> = (0..num_nodes).map(|node| vec![node]).collect();
        losses.push(vec![]);
        if num_nodes == 4 {
            losses.extend([vec![0, 2], vec![1, 2]]);
        }
        for lost in losses {
            let ended = Ended::of(job);
            for node in &lost {
                fs::remove_dir_all(ended.folder().of_node(*node)).unwrap();
            }
            // The ranks that are left; in this file system, each of their nodes sees every part.
            let left: Vec<usize> = (0..num_nodes - lost.len()).collect();
            let recovery = ended.recover(&left);
            let (step, path) = recovery.recovered.unwrap();
            assert_eq!((step, recovery.passed_over), (3, vec![]));
            assert_eq!(
                digest_of(&path),
                digest_of(&ended.own(3)),
                "{job:?}, lost {lost:?}"
            );
            assert!(!ended.folder().path().exists());
        }
    }
}

#[test]
fn each_file_is_on_two_nodes_and_only_the_newest_checkpoint_is_kept() {
    for job in JOBS {
        let ended = Ended::of(job);
        let all: Vec<PathBuf> = (0..ended.nodes)
            .flat_map(|node| ended.shards(node))
            .collect();
        let names = |path: &PathBuf| path.file_name().unwrap().to_owned();
        for shard in &all {
            let copies = all.iter().filter(|other| names(other) == names(shard));
            assert_eq!(copies.count(), 2, "{job:?}: {}", shard.display());
        }
        for node in 0..ended.nodes {
            let entries = fs::read_dir(ended.folder().of_node(node)).unwrap();
            assert_eq!(entries.count(), 1, "{job:?}, node {node}");
        }
    }
}

#[test]
fn frozen_weights_are_stored_once() {
    let names_of = |path: &Path| fs::metadata(path).unwrap().nlink();
    let ended = Ended::of(JOBS[0]);
    for node in 0..2 {
        let shards = ended.shards(node);
        let frozen = shards
            .iter()
            .filter(|path| path.to_string_lossy().contains("frozen-"));
        assert!(frozen.clone().count() >= 2, "{shards:?}");
        // Those of the checkpoints before have been removed.
        assert!(frozen.into_iter().all(|path| names_of(path) == 1));
    }
    let [dir, local] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut this = eight_steps(dir.path(), local.path());
    let training = &mut this.config.training;
    (training.checkpoint_every, training.keep_checkpoints) = (2, 9);
    training.local_checkpoint_every = 1;
    // Of a part and the one before, a frozen file is the same.
    let told = Arc::new(Told {
        watched: Some(local.path().to_owned()),
        ..Told::default()
    });
    of_ranks(&this, &told)[0].as_ref().unwrap();
    let inodes = lock(&told.inodes).clone();
    assert!(
        inodes.len() > 1 && inodes.iter().all(|inode| *inode == inodes[0]),
        "{inodes:?}"
    );
    let steps = [2, 4, 6, 8].map(|step| path_of_step(&dir.path().join("checkpoints"), step));
    for step in &steps {
        digest_of(step);
        let frozen = step.join("frozen-00000.safetensors");
        assert_eq!(names_of(&frozen), 4, "{}", step.display());
    }
}

#[test]
fn what_both_partners_have_lost_is_named() {
    let ended = Ended::of((&[0, 1, 2, 3], "y=2,data=2"));
    for node in [2, 3] {
        fs::remove_dir_all(ended.folder().of_node(node)).unwrap();
    }
    let recovery = ended.recover(&[0, 1]);
    assert_eq!(recovery.recovered, None);
    let told = "local checkpoint of step 3: no node has shard-00002.safetensors";
    assert_eq!(recovery.passed_over, [told]);
}

#[test]
fn a_damaged_file_comes_from_the_other_node() {
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    for node in 0..2 {
        let ended = Ended::of(JOBS[0]);
        ended.shards(node).iter().for_each(|path| flip(path));
        let (_, path) = ended.recover(&[0, 0, 1]).recovered.unwrap();
        assert_eq!(digest_of(&path), digest_of(&ended.own(3)), "node {node}");
    }
    let ended = Ended::of(JOBS[0]);
    for node in 0..2 {
        flip(&ended.part(node).join("shard-00001.safetensors"));
    }
    let recovery = ended.recover(&[0, 1]);
    assert_eq!(recovery.recovered, None);
    let told = &recovery.passed_over[0];
    let needed = "local checkpoint of step 3: shard-00001.safetensors, found 2 times: ";
    assert!(told.starts_with(needed), "{told}");
    assert!(told.contains("CRC-32"), "{told}");
    // Nothing is left of the attempt.
    assert_eq!(
        fs::read_dir(ended.dir.path().join("run")).unwrap().count(),
        0
    );
}

#[test]
fn nodes_that_ended_between_two_commits_have_the_one_before() {
    let [ended, before] = [3, 2].map(|steps| Ended::after(steps, JOBS[2]));
    // Two nodes have completed step 3 and still have step 2; two have not completed step 3.
    for node in 0..4 {
        let folder = ended.folder().of_node(node);
        fs::rename(before.part(node), path_of_step(&folder, 2)).unwrap();
    }
    for node in 2..4 {
        let part = ended.part(node);
        fs::rename(&part, part.with_file_name(".writing-step-00000003")).unwrap();
    }
    let recovery = ended.recover(&[0, 1]);
    let (step, path) = recovery.recovered.unwrap();
    assert_eq!((step, digest_of(&path)), (2, digest_of(&ended.own(2))));
    let told = &recovery.passed_over[0];
    assert!(
        told.starts_with("local checkpoint of step 3: no node has"),
        "{told}"
    );
}

#[test]
fn nothing_else_is_removed() {
    let ended = Ended::of(JOBS[0]);
    let (folder, part) = (ended.folder(), ended.folder().of_node(0));
    for path in [folder.path().join("notes"), part.join("notes")] {
        fs::write(path, "").unwrap();
    }
    ended.recover(&[0, 1]);
    assert!(folder.path().join("notes").exists() && part.join("notes").exists());
    assert!(!ended.part(0).exists() && !folder.of_node(1).exists());
}

#[test]
fn an_older_one_is_of_no_use() {
    let ended = Ended::of(JOBS[0]);
    fs::rename(ended.dir.path().join("own"), ended.dir.path().join("run")).unwrap();
    assert_eq!(ended.recover(&[0, 1]), Recovery::default());
    assert!(!ended.folder().path().exists());
}

/// An observer that keeps what it receives.
#[derive(Default)]
struct Told {
    locals: Mutex<Vec<u64>>,
    troubles: Mutex<Vec<String>>,
    // The folder whose local checkpoints are looked at, and the inode of a copy of a frozen file in each.
    watched: Option<PathBuf>,
    inodes: Mutex<Vec<u64>>,
}

impl Observer for Told {
    fn local_checkpoint(&self, done: &CheckpointDone) {
        lock(&self.locals).push(done.step);
        if let Some(watched) = &self.watched {
            let run = fs::read_dir(watched).unwrap().next().unwrap().unwrap();
            let folder = LocalFolder::new(run.path()).of_node(1);
            let copy = path_of_step(&folder, done.step).join("frozen-00000.safetensors");
            // The next one may have replaced it.
            lock(&self.inodes).extend(fs::metadata(copy).map(|metadata| metadata.ino()));
        }
    }

    fn trouble(&self, error: &Error) {
        lock(&self.troubles).push(error.to_string());
    }
}

/// Data that ends at a step, as a node may.
fn ending(inner: Arc<dyn Batches>, at: u64) -> Arc<dyn Batches> {
    let training = move |inner: &dyn Batches, step: u64, rows: Range<usize>| match step < at {
        true => inner.training(step, rows),
        false => Err(std::io::Error::other("the end").into()),
    };
    Arc::new(Watched { inner, training })
}

/// A run of eight steps that checkpoints only at its end, and locally after every second one.
fn eight_steps(dir: &Path, local: &Path) -> Run {
    let mut config = config_of_bytes("x=2,data=2".parse().unwrap());
    hold_shards(&mut config);
    let training = &mut config.training;
    (training.steps, training.checkpoint_every) = (8, 0);
    training.local_checkpoint_every = 2;
    training.local_checkpoint_dir = Some(local.to_owned());
    run_of_bytes(config, dir)
}

fn of_ranks(this: &Run, told: &Arc<Told>) -> Vec<Result<Summary, Error>> {
    let _lock = this.prepare().unwrap();
    let (this, told) = (this.clone(), told.clone());
    ranks_on(&[0, 0, 1, 1], move |world, device| {
        Ok(run(&world, &device, &this, &*told, &Stop::default()))
    })
}

#[test]
fn a_run_goes_on_where_its_nodes_have_kept_it() {
    let [whole, ended, local] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let told = Arc::new(Told::default());
    of_ranks(&eight_steps(whole.path(), local.path()), &told)[0]
        .as_ref()
        .unwrap();
    assert_eq!(*lock(&told.locals), [2, 4, 6]);
    // What a finished run has kept on its nodes is gone, and so is the note of it.
    assert_eq!(fs::read_dir(local.path()).unwrap().count(), 0);
    assert!(!whole.path().join("local-checkpoints.json").exists());

    let mut this = eight_steps(ended.path(), local.path());
    let data = this.data.clone();
    this.data = ending(data.clone(), 5);
    for rank in of_ranks(&this, &Arc::default()) {
        rank.unwrap_err();
    }
    assert!(
        fs::read_dir(ended.path().join("checkpoints"))
            .unwrap()
            .next()
            .is_none()
    );
    // To begin or resume it now would lose what they have.
    this.restart = true;
    let refused = this.check().unwrap_err().to_string();
    assert!(
        refused.contains("may have kept local checkpoints"),
        "{refused}"
    );
    this.restart = false;
    let dir = ended.path().to_owned();
    let recovery = ranks_on(&[0, 1], move |world, _| recover_local(&world, &dir));
    let (step, checkpoint) = recovery[0].clone().unwrap().recovered.unwrap();
    assert_eq!(step, 4);
    assert_eq!(fs::read_dir(local.path()).unwrap().count(), 0);
    let dir = ended.path().to_owned();
    assert_eq!(
        ranks_on(&[0, 1], move |world, _| recover_local(&world, &dir)),
        [None, None]
    );

    this.data = data;
    this.resume = Some(Resume {
        checkpoint,
        any_change: false,
    });
    let last = of_ranks(&this, &Arc::default());
    assert_eq!(last[0].as_ref().unwrap().steps, 8);
    assert_eq!(digest_of(ended.path()), digest_of(whole.path()));
}

#[test]
fn a_run_goes_on_without_them() {
    let [dir, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    // A file where the folder should be.
    let local = elsewhere.path().join("file");
    fs::write(&local, "").unwrap();
    let told = Arc::new(Told::default());
    let ended = of_ranks(&eight_steps(dir.path(), &local), &told);
    assert_eq!(ended[0].as_ref().unwrap().steps, 8);
    let troubles = lock(&told.troubles).clone();
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert!(troubles[0].contains("file"), "{troubles:?}");
    assert!(lock(&told.locals).is_empty());
}
