//! A plan in words and columns.

use super::{Share, notes, shares};
use crate::{Outcome, Plan, SegmentChoices, estimate, memory::in_words, search::SHOWN};
use hal::error::{Counted, Grouped};
use parallel::data::{Sharding, UpdatePlace};
use std::fmt::Write;
use train::config::PlaceKind;

/// The best ten candidates, where the best one's time goes, and why the runner-up loses.
pub fn text(plan: &Plan) -> String {
    let mut text = headline(plan);
    text += &table(plan);
    if let Some(best) = plan.best.first() {
        text += &time(best);
        text += &on_host(plan, best);
    }
    if let [best, next, ..] = plan.best.as_slice() {
        text += &comparison(best, next);
    }
    for note in notes(plan) {
        let _ = writeln!(text, "\n{note}");
    }
    text
}

fn headline(plan: &Plan) -> String {
    let request = &plan.request;
    format!(
        "{} ({:.1}B parameters) on {} devices of {}, {} sequences of {} tokens, {}, {}, settings {}\n\
         {} ways enumerated, {} within the memory bound, {} simulated in {:.1} s\n\n",
        request.model_name,
        request.work.num_parameters() as f64 / 1e9,
        grouped(request.devices),
        request.machine.title,
        grouped(request.batch),
        grouped(request.model.text().map_or(1, |text| text.context)),
        request.precision.dtype(),
        word(&request.optimiser),
        request.preset.name(),
        grouped(plan.num_candidates),
        grouped(plan.num_fitting),
        grouped(plan.num_simulated),
        plan.took.as_secs_f64(),
    )
}

// The word by which a configuration states a choice.
fn word(choice: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(choice).unwrap_or_default();
    value.as_str().unwrap_or_default().to_string()
}

// What is known of a candidate. Its grid has no column of its own: with it, rows would be wider than most terminals.
const HEAD: [&str; 7] = [
    "",
    "step",
    "tokens/s",
    "Pflop/s",
    "% peak",
    "memory",
    "grid; order and choices",
];

fn table(plan: &Plan) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(
        plan.best
            .iter()
            .take(SHOWN)
            .zip(1..)
            .map(|(outcome, place)| {
                let memory = outcome.memory() as f64 / f64::from(1 << 30);
                [
                    grouped(place),
                    seconds(outcome.step_s),
                    grouped(outcome.tokens_per_s as usize),
                    figures(outcome.flops / 1e15),
                    format!("{:.1}", outcome.percent_of_peak),
                    format!("{memory:.1} GiB"),
                    format!("{}; {}", outcome.candidate.degrees, how(plan, outcome)),
                ]
            }),
    );
    let mut text = aligned(&rows);
    let mfu = plan.best.first().map_or(0.0, |best| 100.0 * best.mfu);
    let _ = writeln!(
        text,
        "Pflop/s and % peak count what is recomputed as work; without it, the first grid reaches {mfu:.1} % (MFU)"
    );
    text
}

// Numbers to the right, and the last column, whose words a terminal may wrap, to the left.
fn aligned(rows: &[[String; HEAD.len()]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; HEAD.len() - 1] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "{cell:>width$}  ");
        }
        let _ = writeln!(text, "{}", row[HEAD.len() - 1]);
    }
    text
}

// With four significant digits.
fn figures(number: f64) -> String {
    let digits = 3 - number.abs().max(1e-9).log10().floor() as i32;
    format!("{number:.*}", usize::try_from(digits).unwrap_or(0))
}

// In groups of three digits.
fn grouped(number: usize) -> String {
    Grouped(number as u64).to_string()
}

fn how(plan: &Plan, outcome: &Outcome) -> String {
    let chosen = &outcome.candidate;
    let mut words = vec![
        format!("order {}", chosen.order),
        Counted(chosen.micro_batches, "micro-batch").to_string(),
    ];
    if chosen.memory.recomputes_all() {
        words.push("recompute".into());
    }
    if chosen.degrees.pipeline > 1 {
        words.push(chosen.schedule.to_string());
    }
    words.extend(depths(&outcome.depths));
    match chosen.sharding {
        Sharding::None => {}
        Sharding::Optimiser => words.push("sharded optimiser".into()),
        Sharding::Gradients => words.push("sharded optimiser and gradients".into()),
    }
    if chosen.keep_gathered {
        words.push("gathered weights kept".into());
    }
    if chosen.sequence_parallel {
        words.push("sequence parallel".into());
    }
    if chosen.degrees.context > 1 {
        words.push(format!("context attention {}", chosen.context_attention));
    }
    let mut place = |what: &str, place: PlaceKind| match place {
        PlaceKind::Device => {}
        PlaceKind::Host => words.push(format!("{what} on the host")),
        PlaceKind::Files => words.push(format!("{what} in files")),
    };
    for (key, its_place) in chosen.places.named() {
        place(key.trim_start_matches("placement."), its_place);
    }
    if chosen.places.update == UpdatePlace::Host {
        place("update", PlaceKind::Host);
    }
    if let Some(all) = chosen.memory.all() {
        place("activations", all.place);
    }
    if let SegmentChoices::Each(each) = &chosen.memory {
        words.push(in_words(&plan.request.work, each));
    }
    words.join(", ")
}

// The most parts whose depths are written out.
const SHOWN_PARTS: usize = 8;

// Parts of equal depth need no word.
fn depths(depths: &[usize]) -> Option<String> {
    let (least, most) = (depths.iter().min()?, depths.iter().max()?);
    match depths.len() {
        _ if least == most => None,
        ..=SHOWN_PARTS => {
            let each: Vec<String> = depths.iter().map(usize::to_string).collect();
            Some(format!("parts of {} segments", each.join("+")))
        }
        _ => Some(format!("parts of {least} to {most} segments")),
    }
}

fn time(best: &Outcome) -> String {
    let mut text = String::from("\nwhere the time of the best one's step goes:\n");
    for Share {
        what,
        seconds: exposed,
        hidden_seconds,
    } in shares(best)
    {
        let percent = 100.0 * exposed / best.step_s;
        let _ = write!(
            text,
            "  {what:<28} {:>10} {percent:>5.1} %",
            seconds(exposed)
        );
        let _ = match hidden_seconds > 0.0 {
            true => writeln!(text, "   and {} hidden", seconds(hidden_seconds)),
            false => writeln!(text),
        };
    }
    text
}

// The host's memory that checkpoints take while they are written, and what is there instead of on the device.
fn on_host(plan: &Plan, best: &Outcome) -> String {
    let (request, gib) = (&plan.request, f64::from(1 << 30));
    let copies = best.snapshot_bytes() as f64 / gib;
    if request.is_on_hosts() {
        return format!("of its memory, {copies:.2} GiB per rank are for copies for checkpoints\n");
    }
    let mut text =
        format!("copies for checkpoints take {copies:.2} GiB of the host's memory per rank");
    let there = estimate::on_host(request, &best.candidate) / gib;
    if there > 0.0 {
        let _ = write!(
            text,
            ", what is there instead of on the device {there:.2} GiB"
        );
        if let Some(room) = request.host_memory_bytes() {
            let _ = write!(text, ", of {:.1} GiB", room as f64 / gib);
        }
    }
    text + "\n"
}

// The part that slows the runner-up most, compared with the best one.
fn comparison(best: &Outcome, next: &Outcome) -> String {
    let (ours, theirs) = (shares(best), shares(next));
    let of = |all: &[Share], what: &str| {
        all.iter()
            .find(|share| share.what == what)
            .map_or(0.0, |share| share.seconds)
    };
    let mut differences: Vec<_> = theirs
        .iter()
        .map(|share| (share.seconds - of(&ours, &share.what), share.what.clone()))
        .collect();
    differences.sort_by(|one, other| other.0.total_cmp(&one.0));
    let behind = next.step_s - best.step_s;
    match differences.first() {
        Some((more, what)) if *more > 0.0 => format!(
            "\nthe runner-up, {}, is {} slower: {what} takes {} more\n",
            next.candidate.degrees,
            seconds(behind),
            seconds(*more)
        ),
        _ => format!(
            "\nthe runner-up, {}, is {} slower\n",
            next.candidate.degrees,
            seconds(behind)
        ),
    }
}

/// Seconds with a fitting unit.
fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 1.0 => format!("{seconds:.3} s"),
        seconds if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{:.1} us", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_at_a_glance() {
        assert_eq!(
            [999, 1000, 1_234_567].map(grouped),
            ["999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0.000_123_456, 4.27139, 1363.69].map(figures),
            ["0.0001235", "4.271", "1364"]
        );
    }
}
