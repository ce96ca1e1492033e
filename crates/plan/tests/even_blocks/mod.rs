//! A pipeline whose stages have equal work, on Perlmutter.

use fascicle_plan::Request;
use grid::{Degrees, machine::Machine};
use parallel::pipeline::ScheduleKind;
use train::config::Precision;

/// Blocks that divide evenly, and a vocabulary whose table and head take little time.
pub fn request(
    [stages, micro_batches]: [usize; 2],
    schedule: Option<ScheduleKind>,
    tied_head: bool,
) -> Request {
    let mut model = families::gpt::published(8 * stages, 2048, 16);
    (model.context, model.vocabulary) = (1024, 512);
    model.tied_head = tied_head;
    let degrees = Degrees {
        pipeline: stages,
        ..Degrees::default()
    };
    let machine = Machine::find("perlmutter").unwrap();
    Request {
        batch: 2 * micro_batches,
        precision: Precision::Bf16,
        grid: Some(degrees),
        micro_batches: Some(micro_batches),
        schedule,
        recompute: Some(false),
        allow_pipeline: true,
        ..Request::new(machine, stages, "even blocks", model.into()).unwrap()
    }
}
