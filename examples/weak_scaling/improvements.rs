//! The benefit of each improvement over the published settings, switched on one after the other, with the best grid
//! each time.

use crate::{Result, point::Point, report::grid, rows::Row};
use fascicle::parallel::{Hierarchical, data::Sharding};
use plan::{Candidate, Outcome, Preset, Request, report::shares, search, simulate};
use std::{fmt::Write, time::Duration};

/// An improvement, and the request with it and all improvements before it.
type Rung = (&'static str, fn(Request) -> Request);

const RUNGS: [Rung; 7] = [
    ("published settings", published),
    ("gradients reduced in buckets, during backward", bucketed),
    ("collectives in two levels over nodes", two_levels),
    (
        "layers recomputed only if memory requires it",
        recomputed_where_needed,
    ),
    (
        "optimiser's state or gradients too sharded over Data",
        sharded,
    ),
    ("vectors between layers spread over X", spread),
    ("pipeline allowed", staged),
];

fn published(request: Request) -> Request {
    Request {
        preset: Preset::PublishedAxonn,
        ..request
    }
}

fn bucketed(request: Request) -> Request {
    Request {
        preset: Preset::Ours,
        recompute: Some(true),
        sharding: Some(Sharding::None),
        keep_gathered: Some(true),
        sequence_parallel: Some(false),
        hierarchical: Some(Hierarchical::Off),
        ..request
    }
}

fn two_levels(request: Request) -> Request {
    Request {
        hierarchical: None,
        ..bucketed(request)
    }
}

fn recomputed_where_needed(request: Request) -> Request {
    Request {
        recompute: None,
        keep_gathered: None,
        ..two_levels(request)
    }
}

fn sharded(request: Request) -> Request {
    Request {
        sharding: None,
        ..recomputed_where_needed(request)
    }
}

fn spread(request: Request) -> Request {
    Request {
        sequence_parallel: None,
        ..sharded(request)
    }
}

fn staged(request: Request) -> Request {
    Request {
        allow_pipeline: true,
        ..spread(request)
    }
}

/// The improvements at one size, as Markdown.
///
/// # Errors
/// Those of the planner.
pub fn section(row: &Row, budget: Duration) -> Result<String> {
    let request = row.request(Preset::Ours, budget)?;
    let mut text = format!(
        "### {} on {} devices of {}\n\n| with | s per batch | gain | % of peak | % without recomputation | grid |\n\
         |---|---:|---:|---:|---:|---|\n",
        request.model_name, row.devices, request.machine.title
    );
    let (mut before, mut last) = (None::<f64>, None::<Candidate>);
    let mut final_outcome = None;
    for (name, with) in RUNGS {
        let request = with(request.clone());
        let outcome = best(&request, last.as_ref())?;
        let gain = before.map_or("".into(), |before| {
            format!("{:.1} %", gain_percent(before, outcome.step_s))
        });
        let _ = writeln!(
            text,
            "| {name} | {:.3} | {gain} | {}",
            outcome.step_s,
            rest(&request, &outcome)
        );
        (before, last) = (Some(outcome.step_s), Some(outcome.candidate.clone()));
        final_outcome = Some(outcome);
    }
    if let Some(outcome) = final_outcome {
        let published = crate::simulate::published(&row.machine, std::slice::from_ref(row))?;
        text += &published
            .iter()
            .map(|point| against(point, &outcome))
            .collect::<String>();
        text += &held_back(&request, &outcome);
    }
    Ok(text)
}

// A switch is used only where it helps, so the best candidate before it remains a candidate.
fn best(request: &Request, before: Option<&Candidate>) -> Result<Outcome> {
    let found = search(request)?
        .best
        .into_iter()
        .next()
        .ok_or("the planner found nothing")?;
    let same = before.and_then(|candidate| simulate(request, candidate, false).ok());
    Ok(match same {
        Some(same) if same.step_s < found.step_s => same,
        _ => found,
    })
}

fn gain_percent(before: f64, after: f64) -> f64 {
    100.0 * (1.0 - after / before)
}

fn rest(request: &Request, outcome: &Outcome) -> String {
    let chosen = &outcome.candidate;
    let choices = [
        (chosen.memory.recomputes_all(), "recompute"),
        (chosen.keep_gathered, "kept"),
        (chosen.sharding.shards_state(), "sharded"),
        (chosen.sharding.shards_gradients(), "gradients too"),
        (chosen.sequence_parallel, "spread"),
    ];
    let words: Vec<_> = choices
        .iter()
        .filter(|(chosen, _)| *chosen)
        .map(|(_, word)| *word)
        .collect();
    let useful = 100.0 * useful_s(request, outcome) / outcome.step_s;
    format!(
        "{:.1} | {useful:.1} | {}; order {}; {} micro-batches; {} |",
        outcome.percent_of_peak,
        grid(outcome),
        chosen.order,
        chosen.micro_batches,
        words.join(", ")
    )
}

// Seconds that the model's own work takes at the advertised peak, without recomputation.
fn useful_s(request: &Request, outcome: &Outcome) -> f64 {
    let counted = request.flop(outcome.candidate.memory.recomputes_all());
    outcome.step_s * outcome.percent_of_peak / 100.0 * request.flop(false) / counted
}

/// The losses of a step, largest first: compute below the advertised peak, and everything other than compute.
fn losses(request: &Request, outcome: &Outcome) -> Vec<(String, f64)> {
    let is_work = |what: &str| matches!(what, "matmuls" | "attention");
    let (work, other): (Vec<_>, Vec<_>) = shares(outcome)
        .into_iter()
        .partition(|share| is_work(&share.what));
    let computed: f64 = work.iter().map(|share| share.seconds).sum();
    let below = computed - useful_s(request, outcome);
    let mut losses = vec![(
        "GEMMs and attention below the advertised peak".to_owned(),
        below,
    )];
    losses.extend(other.into_iter().map(|share| (share.what, share.seconds)));
    losses.sort_by(|one, other| other.1.total_cmp(&one.1));
    losses
}

fn against(published: &Point, outcome: &Outcome) -> String {
    let Point {
        pflops,
        percent_of_peak,
        step_s,
        ..
    } = published;
    format!(
        "\nAxoNN reports {pflops:.1} Pflop/s here ({percent_of_peak:.0} % of peak), {step_s:.2} s per batch. With all of the \
         above, a batch takes {:.2} s, {:.0} % less, at {:.1} Pflop/s.\n",
        outcome.step_s,
        gain_percent(*step_s, outcome.step_s),
        outcome.flops / 1e15
    )
}

fn held_back(request: &Request, outcome: &Outcome) -> String {
    let share = |seconds: f64| 100.0 * seconds / outcome.step_s;
    let losses = losses(request, outcome);
    let mut text = String::from("\nThe remaining losses of the step, largest first:");
    for (what, seconds) in losses.iter().filter(|(_, seconds)| share(*seconds) >= 0.5) {
        let _ = write!(text, " {what} {seconds:.2} s ({:.1} %);", share(*seconds));
    }
    text.pop();
    text + ".\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn useful_time_and_losses_are_the_step() {
        let request = Row::new("perlmutter", 4, "gpt-5b")
            .request(Preset::Ours, Duration::ZERO)
            .unwrap();
        let request = Request {
            batch: 4,
            ..request
        };
        let outcome = best(&request, None).unwrap();
        let lost: f64 = losses(&request, &outcome)
            .iter()
            .map(|(_, seconds)| seconds)
            .sum();
        let sum = lost + useful_s(&request, &outcome);
        assert!(
            (sum / outcome.step_s - 1.0).abs() < 1e-3,
            "{sum} of {}",
            outcome.step_s
        );
    }

    #[test]
    fn every_rung_keeps_what_was_switched_on_before() {
        let request = Row::new("perlmutter", 512, "gpt-5b")
            .request(Preset::Ours, Duration::ZERO)
            .unwrap();
        let all = RUNGS.map(|(_, with)| with(request.clone()));
        assert_eq!(all[0].preset, Preset::PublishedAxonn);
        let fixed = |request: &Request| {
            let switches = [
                request.recompute,
                request.sharding,
                request.keep_gathered,
                request.sequence_parallel,
            ];
            switches.iter().filter(|switch| switch.is_some()).count()
                + usize::from(!request.allow_pipeline)
        };
        let counts: Vec<_> = all[1..].iter().map(fixed).collect();
        assert_eq!(counts, [5, 5, 3, 2, 1, 0]);
    }
}
