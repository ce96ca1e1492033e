//! Mistakes in files of TOML and on the command line: the program answers each in one sentence, which names the key or the flag.

use std::{fs, path::Path, process::Command};

/// A run's configuration with a mistake, and the sentence behind the name of its file.
const CONFIGURATIONS: &[(&str, &str)] = &[
    (
        "[training]\nlerning_rate = 1",
        "line 2: training: found `lerning_rate`, which does not exist here; did you mean `learning_rate`?",
    ),
    (
        "[trainig]\nsteps = 3",
        "line 1: found `trainig`, which does not exist here; did you mean `training`?",
    ),
    (
        "stpes = 3",
        "line 1: found `stpes`, which does not exist here; did you mean `training.steps`?",
    ),
    (
        "[training]\ngrid = \"x=2\"",
        "line 2: training: found `grid`, which does not exist here; did you mean `parallel.grid`?",
    ),
    (
        "[tuning]\nzzzzzzzz = 1",
        "line 2: tuning: found `zzzzzzzz`, needs one of frozen, frozen_weights, adapter_rank, adapter_alpha, adapter_stabilised, adapter_decomposed, adapter_targets, adapter_trained",
    ),
    (
        "[training]\nzzzzzzzz = 1",
        "line 2: training: found `zzzzzzzz`, which does not exist here; `fascicle config list` shows the 45 keys",
    ),
    (
        "[model]\nhiden = 64",
        "line 2: model: found `hiden`, which does not exist here; did you mean `hidden`?",
    ),
    (
        "[model]\nrecompute = true",
        "line 2: model: found `recompute`, which is `training.recompute` now",
    ),
    (
        "[training]\nsteps = \"many\"",
        "line 2: training.steps: found \"many\", needs a whole number of at least 0",
    ),
    (
        "[training]\nsteps = 1.5",
        "line 2: training.steps: found 1.5, needs a whole number of at least 0",
    ),
    (
        "[model]\nlayers = 1.5",
        "line 2: model.layers: found 1.5, needs a whole number of at least 0",
    ),
    (
        "[training]\nsteps = -4",
        "line 2: training.steps: found -4, needs a whole number of at least 0",
    ),
    (
        "[training]\nsteps = [3]",
        "line 2: training.steps: found an array, needs a whole number of at least 0",
    ),
    (
        "[training]\nsteps = 99999999999999999999",
        "line 2: training.steps: found 99999999999999999999, needs a whole number of at most 9223372036854775807",
    ),
    (
        "[training]\nsteps =",
        "line 2: training.steps: found no value, needs one",
    ),
    (
        "[training]\nsteps 3",
        "line 2: training: found `steps 3`, needs `=` between a key and its value",
    ),
    (
        "[training]\nsteps = 3\nsteps = 4",
        "line 3: training.steps: found twice, needs it once",
    ),
    (
        "[training]\nsteps = 3\n[training]\nbatch = 4",
        "line 3: training: found twice, needs it once",
    ),
    ("[training", "line 1: unclosed table, needs `]`"),
    (
        "[training]\nlearning_rate = \"fast\"",
        "line 2: training.learning_rate: found \"fast\", needs a number",
    ),
    (
        "[training]\nlearning_rate = fast",
        "line 2: training.learning_rate: found fast, needs quotes around a string",
    ),
    (
        "[training]\nprecision = bf16",
        "line 2: training.precision: found bf16, needs quotes around a string",
    ),
    (
        "[training]\nprecision = \"f8\"",
        "line 2: training.precision: found `f8`, needs one of f64, f32, bf16, f16",
    ),
    (
        "[training]\nprecision = 16",
        "line 2: training.precision: found 16, needs f64, f32, bf16 or f16",
    ),
    (
        "[training]\noptimiser = \"adam\"",
        "line 2: training.optimiser: found `adam`, needs one of adamw, adamw8bit, adafactor, sgd, lion, muon; did you mean `adamw`?",
    ),
    (
        "[training]\ngraph = \"yes\"",
        "line 2: training.graph: found \"yes\", needs true or false",
    ),
    (
        "[training]\nrecompute = 7",
        "line 2: training.recompute: found 7, needs true, false, or an array of kinds and numbers of segments as in [\"attention\", \"3-8\"]",
    ),
    (
        "[training]\nreproducible = \"never\"",
        "line 2: training.reproducible: found `never`, needs auto, run or grid",
    ),
    ("training = 7", "line 1: training: found 7, needs a table"),
    (
        "[data]\ntokenizer = 7",
        "line 2: data.tokenizer: found 7, needs bytes, characters, { file = PATH }, { ids = NUMBER } or { checkpoint = PATH }",
    ),
    (
        "[data]\ntokenizer = { fiel = \"t.json\" }",
        "line 2: data.tokenizer: found `fiel`, needs bytes, characters, { file = PATH }, { ids = NUMBER } or { checkpoint = PATH }",
    ),
    (
        "[data]\ntokenizer = { ids = \"many\" }",
        "line 2: data.tokenizer.ids: found \"many\", needs a whole number of at least 0",
    ),
    (
        "[data]\nmixture = [{ path = \"a.txt\" }]",
        "line 2: data.mixture[0].weight: found no value, needs one",
    ),
    (
        "[[data.mixture]]\npath = \"a.txt\"\nwieght = 1",
        "line 3: data.mixture[0]: found `wieght`, which does not exist here; did you mean `weight`?",
    ),
    (
        "[data]\nmixture = \"a.txt\"",
        "line 2: data.mixture: found \"a.txt\", needs an array of { path = PATH, weight = NUMBER }",
    ),
    (
        "[data]\nextensions = \"rs\"",
        "line 2: data.extensions: found \"rs\", needs an array",
    ),
    (
        "[data]\npath = 7",
        "line 2: data.path: found 7, needs a string",
    ),
    (
        "[parallel]\ngrid = 8",
        "line 2: parallel.grid: found 8, needs a string such as \"x=2,pipeline=4\", or a table of degrees by axis",
    ),
    (
        "[parallel]\ngrid = \"x=two\"",
        "line 2: parallel.grid: found x=two, needs a whole number of at least 1",
    ),
    (
        "[parallel]\nschedule = \"1b1f\"",
        "line 2: parallel.schedule: found `1b1f`, needs gpipe, 1f1b, interleaved[:CHUNKS], zb-h1, zb-v, pipedream, pipedream-2bw or message-driven[:IN_FLIGHT], numbers from 1",
    ),
    (
        "[parallel]\noverlap = \"oar\"",
        "line 2: parallel.overlap: found \"oar\", needs an array",
    ),
    (
        "[parallel]\nsharding = \"all\"",
        "line 2: parallel.sharding: found `all`, needs none, optimiser or gradients",
    ),
    (
        "[device]\ncollectives = \"stage\"",
        "line 2: device.collectives: found `stage`, needs library or staged",
    ),
    (
        "[device]\nepilogues = \"none\"",
        "line 2: device.epilogues: found `none`, needs fused or separate",
    ),
    (
        "[device]\nmatmul_choice = \"m.txt\"",
        "line 2: device: found `matmul_choice`, which does not exist here; did you mean `matmul_choices`?",
    ),
    (
        "[placement]\nactivations = \"disk\"",
        "line 2: placement.activations: found \"disk\", needs device, host, files or { host = SEGMENTS, files = SEGMENTS }, with SEGMENTS as for training.recompute",
    ),
];

/// A run's configuration that can be read and not be used, and the sentence.
const VALUES: &[(&str, &str)] = &[
    (
        "[tuning]\nadapter_decomposed = true",
        "tuning.adapter_decomposed: found true, needs tuning.adapter_rank of at least 1",
    ),
    (
        "[training]\nbeta1 = 1.5",
        "training.beta1: found 1.5, needs a number from 0 to below 1",
    ),
    (
        "[training]\nlearning_rate = nan",
        "training.learning_rate: found NaN, needs a number above 0",
    ),
    (
        "[data]\nvalidation_fraction = 2",
        "data.validation_fraction: found 2, needs a number above 0 and below 1",
    ),
    (
        "[parallel]\nthreads = 0",
        "parallel.threads: found 0, needs at least 1",
    ),
    (
        "[model]\nfamily = \"mamba\"",
        "model.family: found `mamba`, needs one of gpt2, llama, gemma, gpt_neox",
    ),
    (
        "[model]\nlayers = 0",
        "model.layers: found 0, needs at least 1",
    ),
];

/// A change of a machine's description, from a line to another, and the sentence.
const MACHINES: &[(&str, &str, &str)] = &[
    (
        "nics = 4",
        "adapters = 4",
        "links: found `adapters`, needs one of nics, devices_per_nic, injection_gbps, peer_gbps, base_us, in_node_us, network_us, tree, half_nodes, table, measured, late",
    ),
    (
        "nics = 4",
        "nics = 4.5",
        "links.nics: found 4.5, needs a whole number of at least 0",
    ),
    (
        "nics = 4",
        "nic = 4",
        "links: found `nic`, which does not exist here; did you mean `nics`?",
    ),
];

/// Words of the command line, the status, and the sentence.
const COMMANDS: &[(&str, i32, &str)] = &[
    (
        "train --gird x=2",
        2,
        "found `--gird`, which `fascicle train` does not take; did you mean `--grid`?",
    ),
    (
        "train --colour",
        2,
        "found `--colour`, which `fascicle train` does not take; `fascicle train --help` lists what it takes",
    ),
    (
        "train a.toml b.toml",
        2,
        "found `b.toml`, which `fascicle train` does not take; `fascicle train --help` lists what it takes",
    ),
    (
        "trian",
        2,
        "found `trian`, which is no command of `fascicle`; did you mean `train`?",
    ),
    (
        "checkpoint inspct run",
        2,
        "found `inspct`, which is no command of `fascicle checkpoint`; did you mean `inspect`?",
    ),
    (
        "train --steps many",
        2,
        "--steps: found `many`, needs a whole number of at least 0",
    ),
    (
        "train --steps -3",
        2,
        "--steps: found `-3`, needs a whole number of at least 0",
    ),
    (
        "train --steps 99999999999999999999",
        2,
        "--steps: found `99999999999999999999`, needs a smaller whole number",
    ),
    (
        "train --steps",
        2,
        "--steps: found no value, needs one, as in --steps <N>",
    ),
    (
        "train --precision f8",
        2,
        "--precision: found `f8`, needs one of f32, f64, bf16, f16",
    ),
    (
        "train --grid x=0",
        2,
        "--grid: found x=0, needs a whole number of at least 1",
    ),
    (
        "train --grid w=2",
        2,
        "--grid: axis: found `w`, needs one of x, y, z, context, data, pipeline",
    ),
    (
        "train --sharding all",
        2,
        "--sharding: found `all`, needs none, optimiser or gradients",
    ),
    (
        "train --overlap ar",
        2,
        "--overlap: found `ar`, needs all, none, or any of oar (all-reduces of gradients of inputs), ors (reduce-scatters of gradients of weights), \
         oag (all-gathers of weights), oag-backward (all-gathers of weights in backward alone), data (sums of gradients over replicas)",
    ),
    (
        "train --timeout soon",
        2,
        "--timeout: found `soon`, needs a number",
    ),
    (
        "train --timeout -1",
        2,
        "parallel.timeout_s: found -1, needs a number of seconds above 0",
    ),
    (
        "train --token-type u8",
        2,
        "--token-type: found `u8`, needs one of u16, u32",
    ),
    (
        "train --set training.steps",
        2,
        "--set training.steps: needs `=` between a key and its value, as in training.steps=100",
    ),
    (
        "train --set training..steps=1",
        2,
        "--set training..steps=1: needs a key of names with dots between them, as in training.steps",
    ),
    (
        "train --set training.steps=many",
        2,
        "--set training.steps=many: training.steps: found \"many\", needs a whole number of at least 0",
    ),
    (
        "train --set training.lerning_rate=1",
        2,
        "--set training.lerning_rate=1: training: found `lerning_rate`, which does not exist here; did you mean `learning_rate`?",
    ),
    (
        "train --set data.mixture=[{path=\"a.txt\"}]",
        2,
        "--set data.mixture=[{path=\"a.txt\"}]: data.mixture[0].weight: found no value, needs one",
    ),
    ("train --record 3", 2, "--record: found `3`, needs rank=N"),
    (
        "train --launcher slurm",
        2,
        "--launcher: found `slurm`, needs local or mpi",
    ),
    (
        "train --plan --resume run",
        2,
        "found --plan beside --resume, needs one of the two",
    ),
    (
        "train --survive",
        2,
        "--survive: found a run that cannot be resumed, needs --out DIR --auto-resume, or --resume DIR",
    ),
    (
        "train --survive --out run --auto-resume",
        2,
        "--survive: found ranks that are threads of one process, needs processes, as under mpirun",
    ),
    (
        "train --auto-resume",
        2,
        "found no --out <DIR>, which `--auto-resume` needs",
    ),
    ("train gone.toml", 2, "gone.toml does not exist"),
    (
        "train --machine summit --explain",
        2,
        "machine: found `summit`, needs the file of a description or one of perlmutter, frontier, alps, selene, laptop",
    ),
    ("compare run", 2, "RUN: found 1 value, needs at least 2"),
    (
        "checkpoint diff run",
        2,
        "found no <B>, which `fascicle checkpoint diff` needs",
    ),
    (
        "plan",
        2,
        "found no --machine <NAME|FILE>, --devices <N> or --model <NAME|CONFIG>, which `fascicle plan` needs",
    ),
    (
        "plan --machine alps --devices 8 --model gpt-5b --recompute maybe",
        2,
        "--recompute: found `maybe`, needs yes or no",
    ),
    (
        "plan --machine alps --devices 8 --model gpt-5b --settings best",
        2,
        "--settings: found `best`, needs ours or published-axonn",
    ),
    (
        "bench",
        2,
        "bench: needs gemm, kernels, collectives, step, generate, or --save FILE",
    ),
    (
        "bench gemm --hidden 0",
        2,
        "--hidden: found `0`, needs a whole number from 1 to 16777216",
    ),
    (
        "generate --checkpoint run --temperature warm",
        2,
        "--temperature: found `warm`, needs a number",
    ),
    (
        "config list colour",
        2,
        "config list: found `colour`, needs a part of a key's name",
    ),
    (
        "doctor --environment --nodes",
        2,
        "found --environment beside --nodes, needs one of the two",
    ),
    (
        "doctor --machine laptop",
        2,
        "found no --nodes, which `--machine` needs",
    ),
    (
        "generate run",
        2,
        "found `run`, which `fascicle generate` does not take; did you mean `--checkpoint run`?",
    ),
    (
        "train --batch 7 --micro-batches 2 --grid z=2",
        2,
        "batch=7 does not fit grid x=1,y=1,z=2,data=1,pipeline=1: z=2 x data=1 x micro_batches=2 = 4 does not divide batch=7; \
         the nearest batches that fit: 4 or 8",
    ),
    (
        "train --data gpt2.bin",
        1,
        "data: DIR/gpt2.bin holds token ids of 16 or of 32 bits, and does not say which; add --token-type u16, as nanoGPT writes them, \
         or --token-type u32; for ids of GPT-2's tokenizer add --set data.tokenizer.ids=50257 too",
    ),
    (
        "train --data gpt2.bin --token-type u16",
        1,
        "data: DIR/gpt2.bin: token 50,256 at position 11,999 is outside the vocabulary of 256; set data.tokenizer.ids to the number of \
         tokens that the ids are of, as in --set data.tokenizer.ids=50257 for GPT-2's",
    ),
];

// What the program prints to stderr, in one line, and its status. It reads no terminal, so nothing wraps the line.
fn sentence(dir: &Path, words: &str) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fascicle"))
        .args(words.split_whitespace())
        .current_dir(dir)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let text = text.strip_prefix("fascicle: ").unwrap_or(&text);
    assert!(output.stdout.is_empty(), "{words}");
    (output.status.code().unwrap_or(-1), text.trim_end().into())
}

// All mistakes are looked at, so that one run shows every sentence that has changed.
fn compared(found: impl Iterator<Item = (String, (i32, String), (i32, String))>) {
    let wrong: Vec<String> = found
        .filter(|(_, found, needed)| found != needed)
        .map(|(mistake, found, needed)| format!("{mistake}\n found  {found:?}\n needed {needed:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_configuration_with_a_mistake_is_answered_with_its_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let run = |text: &str| {
        fs::write(dir.path().join("c.toml"), text).unwrap();
        sentence(dir.path(), "train c.toml")
    };
    let texts = CONFIGURATIONS
        .iter()
        .map(|(text, needed)| (*text, format!("c.toml: {needed}")));
    let values = VALUES
        .iter()
        .map(|(text, needed)| (*text, (*needed).to_owned()));
    compared(texts.chain(values).map(|(text, needed)| {
        let found = run(text);
        (text.to_owned(), found, (2, needed))
    }));
}

#[test]
fn a_description_of_a_machine_is_answered_with_its_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/grid/machines/perlmutter.toml");
    let text = fs::read_to_string(path).unwrap();
    compared(MACHINES.iter().map(|(from, to, needed)| {
        let place = text.find(&format!("\n{from}")).unwrap() + 1;
        let line = text[..place].lines().count() + 1;
        let changed = format!("{}{to}{}", &text[..place], &text[place + from.len()..]);
        fs::write(dir.path().join("m.toml"), changed).unwrap();
        let words = "plan --machine m.toml --devices 8 --model gpt-5b";
        let needed = format!("machine file m.toml: line {line}: {needed}");
        ((*to).to_owned(), sentence(dir.path(), words), (2, needed))
    }));
}

#[test]
fn words_that_cannot_be_are_answered_with_the_flag_or_command() {
    let dir = tempfile::tempdir().unwrap();
    let mut ids = vec![0u16; 12_000];
    ids[11_999] = 50_256;
    let bytes: Vec<u8> = ids.into_iter().flat_map(u16::to_le_bytes).collect();
    fs::write(dir.path().join("gpt2.bin"), bytes).unwrap();
    let here = fs::canonicalize(dir.path()).unwrap();
    compared(COMMANDS.iter().map(|(words, status, needed)| {
        let needed = needed.replace("DIR/", &format!("{}/", here.display()));
        let found = sentence(dir.path(), words);
        ((*words).to_owned(), found, (*status, needed))
    }));
}
