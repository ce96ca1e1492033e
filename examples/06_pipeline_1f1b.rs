//! Pipelining: schedules are data. Print them, check them, and compare their live activations and idle times.
//!
//! `cargo run --release --example 06_pipeline_1f1b`

use fascicle::parallel::pipeline::schedule::{self, Times};

fn main() -> fascicle::Result<()> {
    let (stages, micro_batches) = (4, 8);
    let schedules = [
        ("GPipe", schedule::gpipe(stages, micro_batches)?),
        (
            "1F1B",
            schedule::one_forward_one_backward(stages, micro_batches)?,
        ),
        (
            "interleaved 1F1B, 2 chunks",
            schedule::interleaved(stages, 2, micro_batches)?,
        ),
        ("ZB-H1", schedule::zb_h1(stages, micro_batches)?),
        ("ZB-V, 2 chunks", schedule::zb_v(stages, micro_batches)?),
    ];
    // A backward takes twice a forward: half of it for inputs, half for weights.
    let times = Times::halves(1.0, 2.0);
    for (name, schedule) in &schedules {
        let report = schedule::check(schedule)?;
        let idle = schedule::idle(schedule, &times)?;
        println!(
            "{name}: live activations {:?}, idle {:.1} %",
            report.peak_live,
            100.0 * idle.fraction
        );
        println!("{}", schedule.to_text(110));
    }
    // The published bubble of both: (p - 1) / (m + p - 1).
    let bubble = 3.0 / 11.0;
    for (name, schedule) in &schedules[..2] {
        assert!(
            (schedule::idle(schedule, &times)?.fraction - bubble).abs() < 1e-12,
            "{name}"
        );
    }
    assert_eq!(schedule::check(&schedules[1].1)?.peak_live, [4, 3, 2, 1]);
    Ok(())
}
