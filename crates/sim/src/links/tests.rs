use super::Links;
use grid::machine::Cost as Transfer;
use proptest::prelude::*;

fn transfers() -> impl Strategy<Value = Vec<(f64, Transfer)>> {
    let one = (
        0.0..50.0f64,
        0.0..2.0f64,
        0.0..10.0f64,
        any::<bool>(),
        any::<bool>(),
    );
    let transfer = |(start, latency_s, transfer_s, in_node, network)| {
        (
            start,
            Transfer {
                latency_s,
                transfer_s,
                in_node,
                network,
            },
        )
    };
    prop::collection::vec(one.prop_map(transfer), 1..14)
}

fn run(transfers: &[(f64, Transfer)]) -> (Vec<f64>, Links) {
    let mut links = Links::default();
    let ends = transfers
        .iter()
        .map(|(start, transfer)| links.transfer(*start, transfer))
        .collect();
    (ends, links)
}

// Time for which transfers hold a link, measured from outside.
fn held(timeline: &crate::timeline::Timeline) -> f64 {
    let (mut at, mut sum) = (0.0, 0.0);
    while timeline.taken_from(at).is_finite() {
        let start = timeline.taken_from(at);
        at = timeline.free_from(start);
        sum += at - start;
    }
    sum
}

proptest! {
    #[test]
    fn a_link_is_held_by_one_transfer_at_a_time(transfers in transfers()) {
        let (ends, links) = run(&transfers);
        let need = |uses: &dyn Fn(&Transfer) -> bool| {
            transfers.iter().filter(|(_, t)| uses(t)).map(|(_, t)| t.transfer_s).sum::<f64>()
        };
        // If two transfers overlapped on a link, the link would be busy for less than the sum.
        prop_assert!((held(&links.in_node) - need(&|t| t.in_node)).abs() < 1e-9);
        prop_assert!((held(&links.network) - need(&|t| t.network)).abs() < 1e-9);
        for ((start, transfer), end) in transfers.iter().zip(&ends) {
            prop_assert!(*end >= start + transfer.latency_s + transfer.transfer_s - 1e-9);
        }
    }

    #[test]
    fn the_last_transfer_ends_no_later_with_fewer_bytes_or_less_latency(
        transfers in transfers(),
        (bytes, latency) in (0.0..1.0f64, 0.0..1.0f64),
    ) {
        let mut less = transfers.clone();
        let last = less.last_mut().unwrap();
        last.1.transfer_s *= bytes;
        last.1.latency_s *= latency;
        prop_assert!(run(&less).0.last() <= run(&transfers).0.last().map(|end| end + 1e-9).as_ref());
        // A transfer does not affect those issued before it.
        let before = transfers.len() - 1;
        prop_assert_eq!(&run(&less).0[..before], &run(&transfers).0[..before]);
    }
}

#[test]
fn a_later_transfer_fills_the_gaps_that_earlier_ones_leave() {
    let on = |in_node, network| Transfer {
        latency_s: 0.0,
        transfer_s: 4.0,
        in_node,
        network,
    };
    let mut links = Links::default();
    assert_eq!(links.transfer(2.0, &on(true, false)), 6.0);
    assert_eq!(
        links.transfer(0.0, &on(true, true)),
        8.0,
        "two before the other, two behind it"
    );
    assert_eq!(
        links.transfer(0.0, &on(false, true)),
        6.0,
        "the network was free between"
    );
    assert_eq!(
        links.transfer(0.0, &on(false, false)),
        4.0,
        "and within a device nobody is in the way"
    );
    assert_eq!(
        links.compute(0.0, 4.0, 0.25),
        4.0 / 0.75,
        "compute is slowed by all of them"
    );
}
