//! The tables of measured devices in `docs/gpus.md` are made from the results that `ci/gpu.sh` left.

use crate::pages::{before_generated, check_generated, read, table};
use serde_json::Value;

const PAGE: &str = "docs/gpus.md";

/// The first run on a device, and the latest.
const RUNS: [&str; 2] = [
    "docs/measured/h200-first-contact.json",
    "docs/measured/h200.json",
];

/// What a run of `ci/gpu.sh` found.
struct Run(Value);

impl Run {
    fn lines(&self, phase: &str) -> &[Value] {
        let found = self.0["measurements"].get(phase);
        found
            .and_then(Value::as_array)
            .map_or(&[], |lines| &lines[..])
    }

    /// The number of `phase`'s line whose `key` is `name`.
    fn number(&self, phase: &str, key: &str, name: &str, number: &str) -> Option<f64> {
        let is_named = |line: &&Value| line[key].as_str() == Some(name);
        self.lines(phase).iter().find(is_named)?[number].as_f64()
    }

    /// Milliseconds of a step.
    fn step(&self, phase: &str) -> Option<f64> {
        Some(1e3 * self.lines(phase).first()?["step_s"].as_f64()?)
    }

    fn text(&self, key: &str) -> &str {
        self.0["run"][key].as_str().unwrap()
    }

    /// The device, with its libraries.
    fn device(&self) -> String {
        let vendors = self.lines("doctor")[0]["vendors"].as_array().unwrap();
        let used = vendors
            .iter()
            .find(|vendor| vendor["vendor"] == self.text("vendor"))
            .unwrap();
        let findings = used["findings"].as_array().unwrap();
        let findings = findings.iter().map(|finding| finding.as_str().unwrap());
        let said: Vec<&str> = findings
            .filter(|finding| !finding.starts_with("opened") && !finding.starts_with("kernels"))
            .map(|finding| finding.trim_start_matches("device 0: "))
            .collect();
        said.join(", ")
    }
}

fn cell(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(String::new, |number| format!("{number:.decimals$}"))
}

fn quotient(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    Some(above? / below?)
}

fn steps(first: &Run, now: &Run) -> String {
    let rows = ["124m", "1.3b"].map(|model| {
        let (ours, torch) = (format!("step-{model}"), |mode: &str| {
            format!("torch-step-{model}-{mode}")
        });
        let latest = now.step(&ours);
        let against = |mode: &str| cell(quotient(latest, now.step(&torch(mode))), 3);
        let flops = now
            .lines(&ours)
            .first()
            .and_then(|line| Some(line["gflops"].as_f64()? / 1e3));
        vec![
            format!("GPT {}", model.to_uppercase()),
            cell(first.step(&ours), 1),
            cell(latest, 1),
            cell(flops, 0),
            against("eager"),
            against("compiled"),
        ]
    });
    table(
        &[
            "step of one device, bf16",
            "ms, first",
            "ms",
            "Tflop/s",
            "time, of eager PyTorch's",
            "of compiled PyTorch's",
        ],
        rows,
    )
}

fn matmuls(now: &Run) -> String {
    let rows = now.lines("gemm").iter().map(|line| {
        let what = line["what"].as_str().unwrap();
        let us = line["us"].as_f64();
        let size = |key: &str| line[key].as_u64().unwrap();
        vec![
            what.to_owned(),
            format!("{} x {} x {}", size("m"), size("n"), size("k")),
            cell(us, 0),
            cell(line["gflops"].as_f64().map(|gflops| gflops / 1e3), 0),
        ]
    });
    table(&["GEMM", "m x n x k", "us", "Tflop/s"], rows)
}

fn kernels(first: &Run, now: &Run) -> String {
    let lines = now.lines("kernels").iter();
    let rows = lines.filter(|line| line["family"] != "launch").map(|line| {
        let name = line["kernel"].as_str().unwrap();
        let us = line["microseconds"].as_f64();
        let torch = now.number("torch-attention", "kernel", name, "microseconds");
        vec![
            name.to_owned(),
            cell(first.number("kernels", "kernel", name, "microseconds"), 1),
            cell(us, 1),
            cell(line["share_of_copy"].as_f64(), 2),
            cell(line["tflop_per_s"].as_f64(), 0),
            cell(quotient(torch, us), 2),
        ]
    });
    table(
        &[
            "operation",
            "us, first",
            "us",
            "bandwidth, of a copy's",
            "Tflop/s",
            "speed, of PyTorch's",
        ],
        rows,
    )
}

/// The phases without measurements that either run passed.
fn passed(runs: &[Run]) -> String {
    let all = runs
        .iter()
        .flat_map(|run| run.0["phases"].as_array().unwrap());
    let mut names: Vec<&str> = all
        .filter(|phase| phase["outcome"] == "passed")
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn the_tables_of_devices_are_those_measured() {
    let runs = RUNS.map(|path| Run(serde_json::from_str(&read(path)).unwrap()));
    let [first, now] = &runs;
    let expected = format!(
        "{}
## Measured

`ci/gpu.sh` on {}:
first at commit {}, then at {} on {}. Passed:
{}.
The results are in `docs/measured/`. PyTorch's numbers are of the same run.

{}
{}
{}",
        before_generated(PAGE),
        now.device(),
        first.text("kit"),
        now.text("kit"),
        &now.text("started_at")[..10],
        passed(&runs),
        steps(first, now),
        matmuls(now),
        kernels(first, now),
    );
    check_generated(PAGE, &expected);
}
