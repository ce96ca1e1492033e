use super::*;
use hal::{
    codes::{BlockPlace, Codes},
    kernel::{CodedAdamW, CodedAdamWTensor, CodedScales, CodedScalesTensor},
};

const BETAS: [f64; 2] = [0.9, 0.99];

/// Parts of rows: complete blocks with a shorter last one, a part of a block, parts of two, rows shorter than a vector, and
/// an element. Each starts and ends anywhere in its rows.
fn places() -> Vec<(BlockPlace, usize)> {
    let place = |columns, first_column, start, len| {
        let place = BlockPlace {
            columns,
            first_column,
            start,
        };
        (place, len)
    };
    vec![
        place(700, 0, 0, 2100),
        place(32, 32, 5, 1000),
        place(300, 100, 150, 70_001),
        place(7, 252, 3, 40),
        place(1, 0, 0, 1),
    ]
}

/// gradients, codes of both moments, their scales.
fn state(master: DType, (place, len): (BlockPlace, usize)) -> [Vec<f64>; 5] {
    let count = place.blocks(len).end;
    let bytes = |salt| -> Vec<f64> {
        let all = random(DType::F64, len, salt);
        all.iter()
            .map(|x| (x.abs() * 1e6) % 256.0)
            .map(f64::floor)
            .collect()
    };
    let scales = |salt| {
        let all = random(DType::F64, count, salt);
        // The first block is as before a first step.
        let scale = |(block, x): (usize, &f64)| if block == 0 { 0.0 } else { x * x + 0.01 };
        let all: Vec<f64> = all.iter().enumerate().map(scale).collect();
        rounded(master, &all)
    };
    let (mut gradients, mut second) = (random(master, len, 2), bytes(4));
    // Second moments that are positive and nearest to 0.
    for i in (3..len).step_by(11) {
        (gradients[i], second[i]) = (rounded(master, &[1e-6])[0], 0.0);
    }
    [gradients, bytes(3), second, scales(5), scales(6)]
}

/// The moments after an update with factor 0.5.
fn moments(place: (BlockPlace, usize), state: &[Vec<f64>; 5]) -> [Vec<f64>; 2] {
    let [g, first, second, scale1, scale2] = state;
    let old = |codes: Codes, bytes: &[f64], scales: &[f64]| {
        let mut numbers = vec![0.0; bytes.len()];
        for block in place.0.blocks(place.1) {
            for i in place.0.elements(block, place.1) {
                numbers[i] = codes.share(bytes[i] as u8) * scales[block];
            }
        }
        numbers
    };
    let m = old(Codes::Signed, first, scale1);
    let v = old(Codes::Unsigned, second, scale2);
    let m = m
        .iter()
        .zip(g)
        .map(|(m, g)| BETAS[0] * m + (1.0 - BETAS[0]) * 0.5 * g);
    let v = v
        .iter()
        .zip(g)
        .map(|(v, g)| BETAS[1] * v + (1.0 - BETAS[1]) * 0.25 * g * g);
    [m.collect(), v.collect()]
}

fn scales(m: &[RawSlice], place: BlockPlace) -> Kernel {
    let tensor = CodedScalesTensor {
        gradients: m[0],
        codes: [m[1], m[2]],
        scales: [m[3], m[4]],
        next: [m[5], m[6]],
        place,
    };
    Kernel::CodedScales(CodedScales {
        tensors: vec![tensor],
        factor: m[7],
        beta1: BETAS[0],
        beta2: BETAS[1],
    })
}

#[test]
fn scales_are_the_largest_magnitudes_of_new_moments() {
    for (master, place) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&m| places().into_iter().map(move |p| (m, p)))
    {
        let before = state(master, place);
        let count = before[3].len();
        let memories = |factor: f64| {
            let types = [master, DType::U8, DType::U8, master, master];
            let mut memories: Vec<_> = types.into_iter().zip(before.clone()).collect();
            // What a rank does not touch stays: 7 is larger than any moment.
            memories.extend([(master, vec![7.0; count]), (master, vec![7.0; count])]);
            memories.push((DType::F64, vec![factor]));
            memories
        };
        let result = run(&memories(0.5), |m| scales(m, place.0));
        for (of, new) in moments(place, &before).iter().enumerate() {
            let touched = place.0.blocks(place.1);
            let largest = |block: usize| match touched.contains(&block) {
                true => place
                    .0
                    .elements(block, place.1)
                    .fold(0.0f64, |most, i| most.max(new[i].abs())),
                false => 7.0,
            };
            let expected: Vec<f64> = (0..count).map(largest).collect();
            assert_close(master, &result[5 + of], &expected, 8.0);
        }
        let skipped = run(&memories(f64::NAN), |m| scales(m, place.0));
        let touched = place.0.blocks(place.1);
        for of in 0..2 {
            assert_eq!(
                skipped[5 + of][touched.clone()],
                before[3 + of][touched.clone()]
            );
        }
    }
}

fn adamw(m: &[RawSlice], place: BlockPlace, step: u64) -> Kernel {
    let tensor = CodedAdamWTensor {
        gradients: m[0],
        codes: [m[1], m[2]],
        scales: [m[3], m[4]],
        next: [m[5], m[6]],
        weights: m[8],
        compute: Some(m[9]),
        place,
        weight_decay: 0.1,
    };
    Kernel::CodedAdamW(CodedAdamW {
        tensors: vec![tensor],
        factor: m[7],
        rate: 3e-3,
        beta1: BETAS[0],
        beta2: BETAS[1],
        epsilon: 1e-8,
        step,
    })
}

/// The distance of a number to the share of its code is that to the nearest share, up to what rounding moves a border.
fn assert_nearest(codes: Codes, number: f64, code: f64, master: DType) {
    let shares = codes.shares();
    let apart = |share: f64| (share - number).abs();
    let may_be = |code: &usize| codes == Codes::Signed || *code > 0 || number == 0.0;
    assert!(may_be(&(code as usize)), "{number} became 0");
    let nearest = (0..256).filter(may_be).map(|code| apart(shares[code]));
    let nearest = nearest.fold(f64::INFINITY, f64::min);
    let slack = if master == DType::F64 { 1e-13 } else { 1e-5 };
    let found = apart(shares[code as usize]);
    assert!(
        found <= nearest + slack * number.abs(),
        "{number} became code {code} of {codes:?}, {found} away instead of {nearest}"
    );
}

#[test]
fn weights_follow_the_moments_and_codes_are_the_nearest() {
    for (master, compute) in [(DType::F64, DType::F64), (DType::F32, DType::Bf16)] {
        for (place, step) in places().into_iter().flat_map(|p| [(p, 1), (p, 1000)]) {
            let (before, weights) = (state(master, place), random(master, place.1, 1));
            let [m, v] = moments(place, &before);
            let mut next = [vec![0.0f64; before[3].len()], vec![0.0f64; before[3].len()]];
            for block in place.0.blocks(place.1) {
                for i in place.0.elements(block, place.1) {
                    // Of a rank that holds a part of the block; another's part may have a larger moment.
                    let other = if block % 2 == 0 { 1.0 } else { 1.5 };
                    next[0][block] = next[0][block].max(other * (1.0 + 1e-6) * m[i].abs());
                    next[1][block] = next[1][block].max(other * (1.0 + 1e-6) * v[i]);
                }
            }
            let next = next.map(|scales| rounded(master, &scales));
            let memories = |factor: f64| {
                let types = [master, DType::U8, DType::U8, master, master];
                let mut memories: Vec<_> = types.into_iter().zip(before.clone()).collect();
                memories.extend(next.iter().map(|scales| (master, scales.clone())));
                memories.push((DType::F64, vec![factor]));
                memories.extend([(master, weights.clone()), (compute, vec![9.0; place.1])]);
                memories
            };
            let result = run(&memories(0.5), |m| adamw(m, place.0, step));
            let corrections = BETAS.map(|beta| 1.0 - beta.powi(step as i32));
            let weight = |i: usize| {
                let root = (v[i] / corrections[1]).sqrt() + 1e-8;
                weights[i] * (1.0 - 3e-4) - 3e-3 * m[i] / corrections[0] / root
            };
            let expected: Vec<f64> = (0..place.1).map(weight).collect();
            assert_close(master, &result[8], &expected, 64.0);
            assert_eq!(result[9], rounded(compute, &result[8]));
            for block in place.0.blocks(place.1) {
                for i in place.0.elements(block, place.1) {
                    assert_nearest(Codes::Signed, m[i] / next[0][block], result[1][i], master);
                    assert_nearest(Codes::Unsigned, v[i] / next[1][block], result[2][i], master);
                }
            }
            let skipped = run(&memories(f64::NAN), |m| adamw(m, place.0, step));
            let same = memories(0.5).into_iter().map(|(_, values)| values);
            same.enumerate()
                .filter(|(index, _)| *index != 7 && *index != 9)
                .for_each(|(index, values)| {
                    assert_eq!(skipped[index], values, "memory {index} of a skipped update");
                });
        }
    }
}

#[test]
fn every_share_finds_its_own_code() {
    // Without gradients and with betas of nearly 1, the moments stay what the codes stand for.
    for master in [DType::F64, DType::F32] {
        let place = BlockPlace {
            columns: 256,
            first_column: 0,
            start: 0,
        };
        let all: Vec<f64> = (0..256).map(f64::from).collect();
        let one = || (master, vec![1.0]);
        let memories = [
            (master, vec![0.0; 256]),
            (DType::U8, all.clone()),
            (DType::U8, all.clone()),
            one(),
            one(),
            one(),
            one(),
            (DType::F64, vec![1.0]),
            (master, vec![0.0; 256]),
            (master, vec![0.0; 256]),
        ];
        let result = run(&memories, |m| match adamw(m, place, 1) {
            Kernel::CodedAdamW(args) => Kernel::CodedAdamW(CodedAdamW {
                beta1: 1.0 - 1e-12,
                beta2: 1.0 - 1e-12,
                ..args
            }),
            _ => unreachable!(),
        });
        assert_eq!(result[1], all);
        assert_eq!(result[2], all);
    }
}
