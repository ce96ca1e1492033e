//! A schedule as a text diagram: one row per stage, one column per unit of time.

use super::{Action, Pass, Schedule, Times, execute::Span, idle};
use std::fmt;

impl Schedule {
    /// The timeline, at most `max_columns` characters wide if that leaves room for anything.
    ///
    /// `F3` is the forward of micro-batch 3, `B3` its backward, and `F3.1` the forward through chunk 1 if
    /// stages hold several chunks; `W3` are the gradients of weights that a split backward has put off, and `.` is idle
    /// time. All are drawn with equal length. If the diagram is too wide, its middle is left out and marked `~`. A schedule
    /// that breaks a rule is shown as bare lists, with the rule.
    pub fn to_text(&self, max_columns: usize) -> String {
        // Every pass takes one column.
        let times = match self.splits_backward {
            true => Times::UNIT,
            false => Times::halves(1.0, 1.0),
        };
        match idle::spans(self, &times) {
            Ok(spans) => Picture::new(self, &spans).draw(max_columns),
            Err(error) => format!("{}\n{error}", self.bare_lists()),
        }
    }

    fn bare_lists(&self) -> String {
        let is_pass = |action: &&Action| action.peer().is_none();
        let label = |action: &Action| label(*action, self.num_chunks);
        let row = |(stage, list): (usize, &Vec<Action>)| {
            let labels: Vec<String> = list.iter().filter(is_pass).map(label).collect();
            format!("stage {stage} | {}", labels.join(" "))
        };
        self.stages
            .iter()
            .enumerate()
            .map(row)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text(usize::MAX))
    }
}

fn label(action: Action, num_chunks: usize) -> String {
    let letter = match (action, action.pass()) {
        (Action::Weights { .. }, _) => 'W',
        (_, Pass::Forward) => 'F',
        (_, Pass::Backward) => 'B',
    };
    match num_chunks {
        1 => format!("{letter}{}", action.micro_batch()),
        _ => format!("{letter}{}.{}", action.micro_batch(), action.chunk()),
    }
}

/// The cells of all rows, and the width of a cell and of a row's name.
struct Picture {
    rows: Vec<Vec<String>>,
    cell_width: usize,
    name_width: usize,
}

impl Picture {
    fn new(schedule: &Schedule, spans: &[Vec<Span>]) -> Picture {
        // With unit costs, all times are integers.
        let num_columns = spans
            .iter()
            .flatten()
            .map(|span| span.end_us as usize)
            .max()
            .unwrap_or(0);
        let row = |list: &Vec<Span>| {
            let mut cells = vec![".".to_string(); num_columns];
            for span in list {
                cells[span.start_us as usize] = label(span.action, schedule.num_chunks);
            }
            cells
        };
        let rows: Vec<Vec<String>> = spans.iter().map(row).collect();
        let cell_width = rows.iter().flatten().map(String::len).max().unwrap_or(0);
        let name_width = spans.len().saturating_sub(1).to_string().len();
        Picture {
            rows,
            cell_width,
            name_width,
        }
    }

    fn draw(&self, max_columns: usize) -> String {
        let rows = self.rows.iter().enumerate();
        rows.map(|(stage, cells)| self.row(stage, cells, max_columns))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn row(&self, stage: usize, cells: &[String], max_columns: usize) -> String {
        let mut row = format!("stage {stage:>0$} |", self.name_width);
        let (head, tail) = self.kept(cells.len(), max_columns.saturating_sub(row.len()));
        let gap = (head + tail < cells.len()).then_some("~");
        let cells = cells[..head].iter().chain(&cells[cells.len() - tail..]);
        let mut cells: Vec<&str> = cells.map(String::as_str).collect();
        if let Some(gap) = gap {
            cells.insert(head, gap);
        }
        for cell in cells {
            row += &format!(" {cell:<0$}", self.cell_width);
        }
        row.trim_end().to_string()
    }

    /// The number of cells to draw from the front and from the back.
    fn kept(&self, num_cells: usize, room: usize) -> (usize, usize) {
        let fits = room / (self.cell_width + 1);
        if fits >= num_cells {
            return (num_cells, 0);
        }
        // One cell for the mark, and at least one on each side of it.
        let fits = fits.saturating_sub(1).max(2).min(num_cells);
        (fits.div_ceil(2), fits / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::super::gpipe;

    #[test]
    fn gpipe_as_a_picture() {
        let text = gpipe(2, 2).unwrap().to_string();
        assert_eq!(
            text,
            "stage 0 | F0 F1 .  .  B0 B1\nstage 1 | .  F0 F1 B0 B1 ."
        );
    }

    #[test]
    fn a_wide_picture_loses_its_middle() {
        let schedule = gpipe(2, 8).unwrap();
        let text = schedule.to_text(30);
        assert_eq!(
            text,
            "stage 0 | F0 F1 F2 ~  B5 B6 B7\nstage 1 | .  F0 F1 ~  B6 B7 ."
        );
        assert!(text.lines().all(|row| row.len() <= 30));
        assert_eq!(
            schedule.to_text(0).lines().next(),
            Some("stage 0 | F0 ~  B7")
        );
    }

    #[test]
    fn a_broken_schedule_is_still_shown() {
        let mut schedule = gpipe(2, 2).unwrap();
        schedule.stages[0].swap(0, 2);
        let expected = "\
stage 0 | F1 F0 B0 B1
stage 1 | F0 F1 B0 B1
check: stage 0: send activation to stage 1 (micro-batch 0, chunk 0) at position 1, \
needs after forward (micro-batch 0, chunk 0), which is at 2";
        assert_eq!(schedule.to_text(200), expected);
    }
}
