//! The processors on which a rank computes: those to which the launcher bound it, or its share of the host's.

/// The binding chosen for a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Whether every rank has its own processor, so that a waiting rank keeps nobody from working.
    pub(crate) own_core: bool,
    /// Number of threads available to it.
    pub(crate) threads: usize,
    /// For the start-up report.
    pub(crate) words: String,
}

/// The processors that this process may use.
pub(crate) fn allowed() -> Vec<usize> {
    // SAFETY: the type is a bit set of plain words, for which all zeros mean the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set has the stated size, and 0 is the calling thread.
    let status = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    let all = 0..if status == 0 {
        8 * size_of::<libc::cpu_set_t>()
    } else {
        0
    };
    // SAFETY: every index is within the set.
    all.filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect()
}

/// Binds this thread, and the threads it starts, to its share of the processors, unless the launcher has done
/// so.
///
/// `masks` holds the processors that each rank of this host may use, in the order of local ranks.
pub(crate) fn bind(local_rank: usize, masks: &[Vec<usize>]) -> Binding {
    let share = share(local_rank, masks);
    let all = masks.get(local_rank).map_or(0, Vec::len);
    let (threads, words) = match share {
        Share::Launcher => (
            all,
            format!("bound to {} by the launcher", named(&masks[local_rank])),
        ),
        Share::Alone => (all, format!("free on {all} processors")),
        Share::TooFew => (
            0,
            format!("{} ranks share {all} processors, not bound", masks.len()),
        ),
        Share::Own(cores) if set(&cores) => (cores.len(), format!("bound to {}", named(&cores))),
        Share::Own(cores) => (
            cores.len(),
            format!("not bound to {}: the system refused", named(&cores)),
        ),
    };
    Binding {
        own_core: threads > 0,
        threads: threads.max(1),
        words,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Share {
    /// The launcher gave the ranks different processors.
    Launcher,
    /// No other rank runs on this host.
    Alone,
    /// There are more ranks than processors, and the system shares them better than a binding could.
    TooFew,
    /// A part of the processors that all ranks may use.
    Own(Vec<usize>),
}

fn share(local_rank: usize, masks: &[Vec<usize>]) -> Share {
    let Some(mine) = masks.get(local_rank).filter(|_| masks.len() > 1) else {
        return Share::Alone;
    };
    if masks.iter().any(|mask| mask != mine) {
        return Share::Launcher;
    }
    if mine.len() < masks.len() {
        return Share::TooFew;
    }
    let cut = |rank: usize| rank * mine.len() / masks.len();
    Share::Own(mine[cut(local_rank)..cut(local_rank + 1)].to_vec())
}

fn set(cores: &[usize]) -> bool {
    // SAFETY: the type is a bit set of plain words, for which all zeros mean the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the cores come from such a set, so their indices are within it.
    cores
        .iter()
        .for_each(|&core| unsafe { libc::CPU_SET(core, &mut set) });
    // SAFETY: the set has the stated size, and 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0 }
}

fn named(cores: &[usize]) -> String {
    match cores {
        [] => "no processor".into(),
        [core] => format!("processor {core}"),
        [first, .., last] if last - first + 1 == cores.len() => {
            format!("processors {first}-{last}")
        }
        _ => format!("{} processors from {}", cores.len(), cores[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_out_what_all_may_use() {
        let masks = vec![vec![0, 1, 2, 3, 8]; 2];
        assert_eq!(share(0, &masks), Share::Own(vec![0, 1]));
        assert_eq!(share(1, &masks), Share::Own(vec![2, 3, 8]));
        assert_eq!(share(2, &vec![vec![0, 1]; 3]), Share::TooFew);
        assert_eq!(share(0, &[vec![0, 1]]), Share::Alone);
        assert_eq!(share(1, &[vec![0], vec![1]]), Share::Launcher);
    }

    #[test]
    fn this_process_may_use_a_processor() {
        let cores = allowed();
        assert!(!cores.is_empty() && cores.is_sorted());
        assert_eq!(named(&[4, 5, 6]), "processors 4-6");
    }
}
