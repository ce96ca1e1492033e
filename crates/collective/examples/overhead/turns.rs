//! What the examples that time a reducer beside a bare all-reduce have in common.

use std::time::Instant;

/// Numbers of elements that are reduced in a step.
pub const TOTALS: [usize; 3] = [1 << 18, 1 << 20, 1 << 24];

/// A transformer's parameters: few are large, many are small.
pub fn lengths(total: usize) -> Vec<usize> {
    let block = [768, 768 * 4, 768, 1];
    let small = block.repeat(4);
    let rest = total - small.iter().sum::<usize>();
    let large = vec![rest / 16; 16];
    small.into_iter().chain(large).collect()
}

/// Seconds of `work` from a barrier of all ranks to the next. What it returns is dropped behind that.
pub fn timed<R, E>(
    barrier: impl Fn() -> Result<(), E>,
    work: impl FnOnce() -> Result<R, E>,
) -> Result<f64, E> {
    barrier()?;
    let start = Instant::now();
    let result = work()?;
    barrier()?;
    let seconds = start.elapsed().as_secs_f64();
    drop(result);
    Ok(seconds)
}

/// The median of each list.
pub fn medians<const N: usize>(times: [Vec<f64>; N]) -> [f64; N] {
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// The program's arguments: the number of ranks, and that of rounds.
pub fn arguments() -> (usize, usize) {
    let number = |index, default| {
        let given = std::env::args().nth(index);
        given.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    (number(1, 2), number(2, 31).max(1))
}

/// Prints, for each number of bytes, the median milliseconds of every column, and how many times those of the first each takes.
pub fn print<const N: usize>(
    (ranks, rounds): (usize, usize),
    columns: [&str; N],
    lines: &[(usize, [f64; N])],
) {
    println!("{ranks} ranks, medians of {rounds} rounds in turn, in ms and beside the first");
    let heads = columns.map(|column| format!("{column:>20}")).concat();
    println!("{:>10}{heads}", "bytes");
    for (bytes, medians) in lines {
        let cells = medians.map(|time| {
            let cell = format!("{:.2} {:.2}", time * 1e3, time / medians[0]);
            format!("{cell:>20}")
        });
        println!("{bytes:>10}{}", cells.concat());
    }
}
