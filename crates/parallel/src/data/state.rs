//! The optimiser's state of a bucket, and its weights in the accumulator type: on the device or beyond it.

use super::{hosted::HostedState, placed::PlacedState, room::Room};
use tensor::{DType, Device, Error, MemoryKind, Result, Tensor};

/// State tensors, and the weights if those that a forward reads have another type.
#[derive(Clone, Debug)]
pub(super) enum BucketState {
    OnDevice {
        states: Vec<Tensor>,
        master: Option<Tensor>,
    },
    OnHost(HostedState),
    Beyond(PlacedState),
}

/// The tensors of a bucket's state.
pub(super) struct StateTensors {
    /// Elements of each.
    pub(super) len: usize,
    pub(super) num_states: usize,
    /// The type of a state on the device, and that of weights and of all state beyond it.
    pub(super) dtypes: [DType; 2],
    pub(super) has_master: bool,
}

impl BucketState {
    /// Zeros: in the store, if there is one; in memory of the host, if it updates them; or on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn allocate(
        device: &Device,
        room: &Room,
        tensors: &StateTensors,
        alignment: usize,
    ) -> Result<BucketState> {
        let &StateTensors {
            len,
            num_states,
            dtypes: [of_state, accumulator],
            has_master,
        } = tensors;
        let is_empty = len == 0 || (num_states == 0 && !has_master);
        let of_each = (len, accumulator);
        if let Some(store) = room.store.as_ref().filter(|_| !is_empty) {
            let tensors = (num_states, has_master);
            let placed = PlacedState::add(store, of_each, tensors, alignment);
            return Ok(BucketState::Beyond(placed));
        }
        if let Some(host) = room.host.as_ref().filter(|_| !is_empty) {
            let hosted = HostedState::zeros(host, of_each, num_states, alignment)?;
            return Ok(BucketState::OnHost(hosted));
        }
        let zeros = |dtype: DType| {
            device.allocating(MemoryKind::Optimiser, || {
                Tensor::zeros(device, dtype, &[len])
            })
        };
        let master = has_master.then(|| zeros(accumulator)).transpose()?;
        let states = (0..num_states).map(|_| zeros(of_state));
        let states = states.collect::<Result<_>>()?;
        Ok(BucketState::OnDevice { states, master })
    }

    /// Whether it is on the device.
    pub(super) fn is_on_device(&self) -> bool {
        matches!(self, BucketState::OnDevice { .. })
    }

    /// What is in a store, if it is.
    pub(super) fn placed(&self) -> Option<&PlacedState> {
        match self {
            BucketState::Beyond(placed) => Some(placed),
            _ => None,
        }
    }

    /// What is in memory of the host that updates it, if it is.
    pub(super) fn hosted(&self) -> Option<&HostedState> {
        match self {
            BucketState::OnHost(hosted) => Some(hosted),
            _ => None,
        }
    }

    /// State tensors per weight.
    pub(super) fn num_states(&self) -> usize {
        match self {
            BucketState::OnDevice { states, .. } => states.len(),
            BucketState::OnHost(hosted) => hosted.states.len(),
            BucketState::Beyond(placed) => placed.num_states,
        }
    }

    /// Whether the weights that are updated are apart from those that a forward reads.
    pub(super) fn has_master(&self) -> bool {
        match self {
            BucketState::OnDevice { master, .. } => master.is_some(),
            BucketState::OnHost(_) => true,
            BucketState::Beyond(placed) => placed.has_master,
        }
    }

    /// The weights, if they are apart; a copy, if they are beyond the device.
    ///
    /// # Errors
    /// Those of the store; [`Error::OutOfMemory`] for a copy.
    pub(super) fn master(&self, device: &Device) -> Result<Option<Tensor>> {
        match self {
            BucketState::OnDevice { master, .. } => Ok(master.clone()),
            BucketState::OnHost(hosted) => hosted.on_device(device, &hosted.master).map(Some),
            BucketState::Beyond(placed) if placed.has_master => {
                placed.tensor(device, placed.master_index()).map(Some)
            }
            BucketState::Beyond(_) => Ok(None),
        }
    }

    /// Sets the weights, if they are apart, on that many threads.
    ///
    /// # Errors
    /// Those of the device and the store.
    pub(super) fn set_master(&self, (threads, numbers): (usize, &[f64])) -> Result<()> {
        match self {
            BucketState::OnDevice { master, .. } => match master {
                Some(master) => master.upload_f64_on(threads, numbers),
                None => Ok(()),
            },
            BucketState::OnHost(hosted) => hosted.master.upload_f64_on(threads, numbers),
            BucketState::Beyond(placed) if placed.has_master => {
                placed.set(placed.master_index(), numbers)
            }
            BucketState::Beyond(_) => Ok(()),
        }
    }

    /// A state tensor; a copy, if it is beyond the device.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a state that the parameters do not have; those of the store; [`Error::OutOfMemory`] for a copy.
    pub(super) fn tensor(&self, device: &Device, index: usize) -> Result<Tensor> {
        self.has_state(index)?;
        match self {
            BucketState::OnDevice { states, .. } => Ok(states[index].clone()),
            BucketState::OnHost(hosted) => hosted.on_device(device, &hosted.states[index]),
            BucketState::Beyond(placed) => placed.tensor(device, index),
        }
    }

    /// Sets a state tensor, on that many threads.
    ///
    /// # Errors
    /// As [`tensor`](BucketState::tensor).
    pub(super) fn set(&self, index: usize, (threads, numbers): (usize, &[f64])) -> Result<()> {
        self.has_state(index)?;
        match self {
            BucketState::OnDevice { states, .. } => states[index].upload_f64_on(threads, numbers),
            BucketState::OnHost(hosted) => hosted.states[index].upload_f64_on(threads, numbers),
            BucketState::Beyond(placed) => placed.set(index, numbers),
        }
    }

    fn has_state(&self, index: usize) -> Result<()> {
        let num_states = self.num_states();
        match index < num_states {
            true => Ok(()),
            false => {
                let needed = format!("a number below {num_states}");
                Err(Error::invalid("optimiser state", index.to_string(), needed))
            }
        }
    }
}
