//! What the examples that time a reducer beside a bare all-reduce have in common.

use std::time::Instant;

/// Bytes that are reduced in a step.
pub const SIZES: [usize; 5] = [4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20];

/// The lengths of a transformer's parameters of this many bytes in f32: norms, biases, and matrices that hold nearly all.
pub fn lengths(bytes: usize) -> Vec<usize> {
    let total = bytes / 4;
    let blocks = if total < 1 << 16 { 1 } else { 4 };
    let width = (total / (12 * blocks)).isqrt();
    let small = [width, 4 * width, width, 1].repeat(blocks);
    let rest = total - small.iter().sum::<usize>();
    let mut matrices = vec![rest / (4 * blocks); 4 * blocks];
    matrices[0] += rest % (4 * blocks);
    small.into_iter().chain(matrices).collect()
}

/// The program's arguments: the number of ranks, and that of turns.
pub fn arguments() -> (usize, usize) {
    let number = |index, default| {
        let given = std::env::args().nth(index);
        given.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    (number(1, 2), number(2, 41).max(1))
}

/// One of the ways to reduce as many bytes.
pub type Way<'a, E> = (&'static str, Box<dyn FnMut() -> Result<(), E> + 'a>);

/// Times the ways in turn, and prints on rank 0 the median of the first in microseconds, and for each other the median of its
/// quotients by the first of the same turn, with their quartiles.
///
/// Small steps are repeated within a turn, so that a turn is long beside a barrier.
pub fn compare<E>(
    rank: usize,
    bytes: usize,
    turns: usize,
    barrier: impl Fn() -> Result<(), E>,
    mut ways: Vec<Way<'_, E>>,
) -> Result<(), E> {
    let repeats = (4_usize << 20).div_ceil(bytes).min(100);
    let mut times = vec![Vec::new(); ways.len()];
    for turn in 0..turns + 2 {
        for step in 0..ways.len() {
            let way = (turn + step) % ways.len();
            barrier()?;
            let start = Instant::now();
            for _ in 0..repeats {
                (ways[way].1)()?;
            }
            barrier()?;
            let seconds = start.elapsed().as_secs_f64() / repeats as f64;
            // The first turns meet cold caches.
            if turn >= 2 {
                times[way].push(seconds);
            }
        }
    }
    if rank > 0 {
        return Ok(());
    }
    print!(
        "{bytes:>10} {:>10.1} us",
        quartiles(times[0].clone())[1] * 1e6
    );
    for ((name, _), own) in ways.iter().zip(&times).skip(1) {
        let quotients = own.iter().zip(&times[0]).map(|(own, first)| own / first);
        let [low, middle, high] = quartiles(quotients.collect());
        print!("   {name} {middle:.2} ({low:.2}-{high:.2})");
    }
    println!();
    Ok(())
}

fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() - 1) * quarter / 4])
}
