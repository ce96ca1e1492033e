use super::*;
use hal::kernel::AttentionJoin;

#[test]
fn joined_blocks_are_weighted_by_their_sums() {
    let (sequences, queries, heads) = (2, 3, 2);
    for (dtype, head_size) in FLOATS
        .into_iter()
        .flat_map(|d| COLUMNS.map(|size| (d, size)))
    {
        let accumulator = dtype.accumulator();
        let num_sums = sequences * heads * queries;
        // A query may meet no key of one block, or of both.
        let with_none = |every: usize, seed| {
            let mut sums = random(accumulator, num_sums, seed);
            sums.iter_mut()
                .step_by(every)
                .for_each(|sum| *sum = f64::NEG_INFINITY);
            sums
        };
        let (out, block) = (
            random(accumulator, num_sums * head_size, 1),
            random(dtype, num_sums * head_size, 2),
        );
        let (first, second) = (with_none(2, 3), with_none(3, 4));
        let found = run(
            &[
                (accumulator, out.clone()),
                (accumulator, first.clone()),
                (dtype, block.clone()),
                (accumulator, second.clone()),
                (accumulator, vec![f64::NAN; num_sums]),
            ],
            |m| {
                Kernel::AttentionJoin(AttentionJoin {
                    sequences,
                    queries,
                    heads,
                    head_size,
                    out: m[0],
                    log_sum_exp: m[1],
                    block: m[2],
                    block_log_sum_exp: m[3],
                    joined: m[4],
                })
            },
        );
        let total = |sum: usize| first[sum].exp() + second[sum].exp();
        let expected = (0..out.len()).map(|at| {
            let (token, head) = (at / head_size / heads, at / head_size % heads);
            let sum = (token / queries * heads + head) * queries + token % queries;
            match total(sum) {
                0.0 => out[at],
                total => (first[sum].exp() * out[at] + second[sum].exp() * block[at]) / total,
            }
        });
        assert_close(accumulator, &found[0], &expected.collect::<Vec<_>>(), 8.0);
        for (sum, &found) in found[4].iter().enumerate() {
            match total(sum) {
                0.0 => assert_eq!(found, f64::NEG_INFINITY),
                total => assert_close(accumulator, &[found], &[total.ln()], 8.0),
            }
        }
    }
}
