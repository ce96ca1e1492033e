//! Times of `all_reduce`, printed: `cargo test --release --test collectives -- --ignored --nocapture speed`.

use crate::harness::Group;
use hal::{Collective, DType, ReduceOp, StreamKind};
use std::time::Instant;

#[test]
#[ignore = "prints times and checks nothing"]
fn speed_of_all_reduce() {
    let dtypes = [DType::F32, DType::Bf16, DType::F16];
    for (size, kind) in [(2, StreamKind::Compute), (2, StreamKind::Communication), (8, StreamKind::Compute)] {
        for dtype in dtypes {
            for bytes in [1 << 10, 64 << 10, 4 << 20, 64 << 20] {
                let times = Group::new(size).run(|rank| {
                    let buffer = rank.zeros(dtype, bytes / dtype.bytes());
                    let call = [Collective::AllReduce { buffer: buffer.slice(), op: ReduceOp::Sum }];
                    let repeats = (1 << 26) / bytes.max(1 << 16) + 3;
                    let mut times: Vec<f64> = (0..repeats)
                        .map(|_| {
                            rank.run_now(StreamKind::Compute, Collective::Barrier, &[]).unwrap();
                            let start = Instant::now();
                            rank.run(rank.stream(kind), &call, &[&buffer]).unwrap();
                            rank.stream(kind).synchronize().unwrap();
                            start.elapsed().as_secs_f64() * 1e6
                        })
                        .collect();
                    times.sort_by(f64::total_cmp);
                    times[times.len() / 2]
                });
                println!("{size} ranks, {kind:?}, {} KiB of {dtype}: {:.1} us", bytes >> 10, times[0]);
            }
        }
    }
}
