//! The most memory that a run took, and what for.

use crate::Result;
use bootstrap::World;
use serde::{Deserialize, Serialize};
use tensor::{Device, MemoryKind};

/// The most that tensors held at a time, on the rank where that was the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakMemory {
    /// That rank; of several, the first.
    pub rank: usize,
    /// Bytes in all.
    pub bytes: usize,
    /// What they were for, in the order of [`MemoryKind::ALL`].
    pub by_kind: [usize; 5],
}

impl PeakMemory {
    /// The largest peak of all ranks. Collective: every rank calls it with its device, and all give the same.
    ///
    /// # Errors
    /// Those of the exchange.
    pub fn of_all(world: &World, device: &Device) -> Result<PeakMemory> {
        let own = device
            .memory_use()
            .at_peak()
            .map(|bytes| (bytes as u64).to_le_bytes());
        let all = world.everyone().all_gather(own.as_flattened())?;
        let peaks = all
            .iter()
            .enumerate()
            .map(|(rank, bytes)| PeakMemory::decode(rank, bytes));
        Ok(peaks
            .reduce(|most, next| if next.bytes > most.bytes { next } else { most })
            .unwrap_or_default())
    }

    fn decode(rank: usize, bytes: &[u8]) -> PeakMemory {
        let (numbers, _) = bytes.as_chunks::<8>();
        let mut by_kind = [0; 5];
        by_kind
            .iter_mut()
            .zip(numbers)
            .for_each(|(own, bytes)| *own = u64::from_le_bytes(*bytes) as usize);
        PeakMemory {
            rank,
            bytes: by_kind.iter().sum(),
            by_kind,
        }
    }

    /// The kinds that held anything, by name.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let kinds = MemoryKind::ALL.into_iter().zip(self.by_kind);
        kinds
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(kind, bytes)| (kind.name(), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, trainer::Trainer};
    use bootstrap::local::{Options, run};
    use parallel::Context;
    use tensor::{DType, Tensor};

    const CONFIG: &str = r#"
        [model]
        layers = 2
        hidden = 64
        heads = 4
        context = 32
        vocabulary = 512
        [training]
        precision = "bf16"
        [parallel]
        grid = "data=2"
        sharded_optimiser = true
    "#;

    #[test]
    fn a_trainer_tells_weights_gradients_and_optimiser_apart_and_all_ranks_the_largest_peak() {
        let peaks = run(Options::new(2), |world| {
            let device = Device::new(cpu::open(cpu::Options::default())?)?;
            let config = Config::parse(CONFIG)?;
            let context = Context::new(
                world.clone(),
                config.grid()?,
                device.clone(),
                config.settings(),
            )?;
            let trainer = Trainer::new(&context, &config)?;
            if world.rank() == 1 {
                drop(Tensor::zeros(&device, DType::F32, &[1 << 20])?);
            }
            let peak = PeakMemory::of_all(&world, &device)?;
            drop(trainer);
            Ok::<_, crate::Error>((config.model.num_parameters(), peak))
        });
        let peaks = peaks.unwrap_or_else(|failure| panic!("{}", failure.report()));
        let (num_parameters, peak) = peaks[0];
        assert_eq!(peaks[1].1, peak);
        assert_eq!((peak.rank, peak.bytes), (1, peak.by_kind.iter().sum()));
        // Two bytes a weight, four a gradient, twelve a weight over both replicas for the master copy and two moments.
        // Blocks are rounded up by an eighth at most, and buffers padded a little.
        for (kind, bytes_each) in [(0, 2), (1, 4), (2, 6)] {
            let exact = num_parameters * bytes_each;
            assert!(
                (exact..exact * 5 / 4).contains(&peak.by_kind[kind]),
                "{peak:?}, needs about {exact}"
            );
        }
        assert_eq!(
            peak.by_kind[3],
            4 << 20,
            "the tensor of rank 1 is the only activation"
        );
        let names: Vec<_> = peak.kinds().map(|(name, _)| name).collect();
        assert_eq!(names, ["weights", "gradients", "optimiser", "activations"]);
    }
}
