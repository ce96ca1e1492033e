//! Which rank works on which matrix.

/// Shares matrices among `owners` ranks by their work: rounds of at most one matrix per owner, as `rounds[round][owner]`.
///
/// The largest matrix goes first, each to the owner with the least work so far. The first owner has the most work: it is the
/// one that a simulation runs for all.
pub(super) fn rounds(work: &[f64], owners: usize) -> Vec<Vec<Option<usize>>> {
    let mut order: Vec<usize> = (0..work.len()).collect();
    order.sort_by(|&one, &other| work[other].total_cmp(&work[one]));
    let mut shares = vec![(0.0f64, Vec::new()); owners];
    for matrix in order {
        let least = shares
            .iter_mut()
            .min_by(|one, other| one.0.total_cmp(&other.0));
        if let Some((sum, own)) = least {
            *sum += work[matrix];
            own.push(matrix);
        }
    }
    shares.sort_by(|one, other| other.0.total_cmp(&one.0));
    let most = shares.iter().map(|(_, own)| own.len()).max().unwrap_or(0);
    let round = |round: usize| shares.iter().map(move |(_, own)| own.get(round).copied());
    (0..most).map(|number| round(number).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(work: &[f64], owners: usize) -> Vec<f64> {
        let mut loads = vec![0.0; owners];
        let mut seen = Vec::new();
        for round in rounds(work, owners) {
            assert_eq!(round.len(), owners);
            for (owner, matrix) in round.into_iter().enumerate() {
                loads[owner] += matrix.map_or(0.0, |matrix| work[matrix]);
                seen.extend(matrix);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..work.len()).collect::<Vec<_>>(), "each once");
        loads
    }

    #[test]
    fn each_matrix_has_one_owner_and_the_first_has_the_most_work() {
        assert_eq!(loads(&[1.0; 8], 4), [2.0; 4]);
        assert_eq!(loads(&[3.0, 5.0, 3.0], 2), [6.0, 5.0]);
        assert_eq!(loads(&[4.0, 1.0, 1.0, 1.0, 1.0], 2), [4.0, 4.0]);
        assert_eq!(loads(&[2.0], 3), [2.0, 0.0, 0.0]);
        assert!(rounds(&[], 3).is_empty());
        assert_eq!(rounds(&[1.0, 9.0], 1), [[Some(1)], [Some(0)]]);
    }
}
