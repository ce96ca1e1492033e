//! The memory that tensors hold, in total and by purpose.

/// The purpose of a tensor's memory.
///
/// Memory counts as the kind set by [`Device::allocating`](crate::Device::allocating) when it was allocated,
/// otherwise as activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryKind {
    /// Parameters in the compute type.
    Weights,
    /// The parameters' gradients.
    Gradients,
    /// State of the optimiser, and the master copy of the weights.
    Optimiser,
    /// What forward keeps for backward, and everything else.
    #[default]
    Activations,
    /// Gathered weights, blocks of gradients before their reduction, received messages.
    Buffers,
    /// Keys and values that sequences keep while they are generated.
    KeysValues,
}

impl MemoryKind {
    /// All kinds, in the order of [`MemoryUse::by_kind`].
    pub const ALL: [MemoryKind; 6] = [
        MemoryKind::Weights,
        MemoryKind::Gradients,
        MemoryKind::Optimiser,
        MemoryKind::Activations,
        MemoryKind::Buffers,
        MemoryKind::KeysValues,
    ];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            MemoryKind::Weights => "weights",
            MemoryKind::Gradients => "gradients",
            MemoryKind::Optimiser => "optimiser",
            MemoryKind::Activations => "activations",
            MemoryKind::Buffers => "buffers",
            MemoryKind::KeysValues => "keys and values",
        }
    }
}

/// Bytes that tensors of one kind hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindUse {
    /// Held now.
    pub in_use: usize,
    /// The most that this kind held at one time, regardless of the others.
    pub peak: usize,
    /// Held when all kinds together first reached their maximum; summed over the kinds this is
    /// [`MemoryUse::peak`].
    pub at_peak: usize,
}

/// Bytes of a device's memory that tensors and the cache hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Held by live tensors.
    pub in_use: usize,
    /// The most that live tensors held at one time.
    pub peak: usize,
    /// Freed, and kept for the next tensor of that size.
    pub cached: usize,
    /// The same by the tensors' purpose, in the order of [`MemoryKind::ALL`].
    pub by_kind: [KindUse; 6],
}

impl MemoryUse {
    /// The bytes that tensors of that kind hold.
    pub const fn of(&self, kind: MemoryKind) -> KindUse {
        self.by_kind[kind as usize]
    }

    /// The peak's bytes by kind, in the order of [`MemoryKind::ALL`].
    pub fn at_peak(&self) -> [usize; 6] {
        self.by_kind.map(|of_kind| of_kind.at_peak)
    }

    pub(crate) fn enter(&mut self, kind: MemoryKind, bytes: usize) {
        let own = &mut self.by_kind[kind as usize];
        own.in_use += bytes;
        own.peak = own.peak.max(own.in_use);
        self.in_use += bytes;
        if self.in_use > self.peak {
            self.mark_peak();
        }
    }

    pub(crate) fn leave(&mut self, kind: MemoryKind, bytes: usize) {
        self.by_kind[kind as usize].in_use -= bytes;
        self.in_use -= bytes;
        self.cached += bytes;
    }

    pub(crate) fn reset_peak(&mut self) {
        self.by_kind
            .iter_mut()
            .for_each(|of_kind| of_kind.peak = of_kind.in_use);
        self.mark_peak();
    }

    fn mark_peak(&mut self) {
        self.peak = self.in_use;
        self.by_kind
            .iter_mut()
            .for_each(|of_kind| of_kind.at_peak = of_kind.in_use);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryKind::{Activations, Buffers, Weights};

    fn numbers(usage: &MemoryUse, kind: MemoryKind) -> [usize; 3] {
        let KindUse {
            in_use,
            peak,
            at_peak,
        } = usage.of(kind);
        [in_use, peak, at_peak]
    }

    #[test]
    fn a_kind_remembers_its_own_peak_and_its_part_of_the_whole_one() {
        let mut usage = MemoryUse::default();
        usage.enter(Weights, 100);
        usage.enter(Buffers, 50);
        usage.leave(Buffers, 50);
        usage.enter(Activations, 70);
        usage.enter(Buffers, 20);
        usage.leave(Activations, 70);
        assert_eq!((usage.in_use, usage.peak, usage.cached), (120, 190, 120));
        assert_eq!(numbers(&usage, Weights), [100, 100, 100]);
        assert_eq!(numbers(&usage, Activations), [0, 70, 70]);
        assert_eq!(numbers(&usage, Buffers), [20, 50, 20]);
        assert_eq!(usage.at_peak().iter().sum::<usize>(), usage.peak);
    }

    #[test]
    fn a_new_peak_starts_from_what_is_in_use() {
        let mut usage = MemoryUse::default();
        usage.enter(Activations, 300);
        usage.leave(Activations, 300);
        usage.enter(Weights, 100);
        usage.reset_peak();
        assert_eq!((usage.peak, usage.at_peak()), (100, [100, 0, 0, 0, 0, 0]));
        assert_eq!(numbers(&usage, Activations), [0, 0, 0]);
    }

    #[test]
    fn kinds_are_listed_in_the_order_of_their_numbers() {
        for (index, kind) in MemoryKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "{}", kind.name());
        }
    }
}
