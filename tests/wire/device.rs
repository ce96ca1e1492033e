//! A device on one rank of which a collective returns one wrong bit.

#![allow(unsafe_code, reason = "groups that pass on the calls of their callers")]

use hal::{
    Access, Collective, Communicator, DType, Device, GroupId, Join, Kernel, Kernels, Operand,
    RawSlice, Result, Stream,
    kernel::{Custom, CustomArguments, CustomKernel},
    lock,
};
use replay::{Groups, Wrapped};
use std::{
    fmt,
    sync::{Arc, Mutex},
};

/// Where a rank is in its step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// Not in a step whose calls count.
    #[default]
    Outside,
    /// In the forward of this segment.
    Forward(usize),
    /// In the objective.
    Objective,
    /// In a step, and in neither.
    Between,
}

/// A received buffer that holds floats.
#[derive(Clone, Debug)]
pub struct Received {
    /// The operation.
    pub operation: &'static str,
    /// The label of its group.
    pub group: String,
    /// World rank of the sender of a message.
    pub sender: Option<usize>,
    /// Type of the elements.
    pub dtype: DType,
    /// When the call was queued.
    pub moment: Moment,
}

/// What a rank has received in the step whose calls count, and which of these is to be wrong.
#[derive(Debug, Default)]
pub struct Wire {
    /// The rank's present.
    pub moment: Moment,
    /// In the order of calls.
    pub received: Vec<Received>,
    /// The index of the wrong one, and the bit.
    pub fault: Option<(usize, u32)>,
    /// Whether a bit was flipped; none is where all elements are 0.
    pub is_hit: bool,
}

/// Shared by the rank and its groups.
pub type Shared = Arc<Mutex<Wire>>;

/// The same device, with groups of which one returns a wrong bit.
pub fn wrap(device: Arc<dyn Device>, wire: &Shared) -> Arc<dyn Device> {
    Wrapped::open(device, Faulty(wire.clone()))
}

#[derive(Debug)]
struct Faulty(Shared);

impl Groups for Faulty {
    fn create(&self, device: &dyn Device) -> Result<GroupId> {
        device.create_group()
    }

    fn join(&self, device: &Arc<dyn Device>, join: Join) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(FaultyGroup {
            label: join.label.clone(),
            members: join.members.clone(),
            group: device.join(join)?,
            kernels: device.kernels()?,
            wire: self.0.clone(),
        }))
    }
}

struct FaultyGroup {
    label: String,
    members: Vec<usize>,
    group: Box<dyn Communicator>,
    kernels: Arc<dyn Kernels>,
    wire: Shared,
}

// SAFETY: `rank` and `size` are those of the group. Its calls get the caller's arguments; after them a kernel is queued on the
// caller's stream, which writes what the call has written.
unsafe impl Communicator for FaultyGroup {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()> {
        // SAFETY: the caller guarantees the same.
        unsafe { self.group.run(stream, collectives)? };
        for collective in collectives {
            let mut written = None;
            collective.operands(&mut |operand| {
                if operand.access.writes() && operand.slice.dtype.is_float() {
                    written = Some(operand.slice);
                }
            });
            if let Some(bit) = written.and_then(|slice| self.note(collective, slice)) {
                let kernel = self.flip(written.expect("was found"), bit);
                // SAFETY: the operand is that of the call before on this stream, so it is live and nothing else uses it.
                unsafe { self.kernels.launch(stream, &kernel)? };
            }
        }
        Ok(())
    }

    fn connect(&self) -> Result<()> {
        self.group.connect()
    }
}

impl FaultyGroup {
    // The bit to flip, if this is the call that is to be wrong.
    fn note(&self, collective: &Collective, slice: RawSlice) -> Option<u32> {
        let mut wire = lock(&self.wire);
        if wire.moment == Moment::Outside {
            return None;
        }
        let sender = match collective {
            Collective::Recv { from, .. } => Some(self.members[*from]),
            _ => None,
        };
        let moment = wire.moment;
        wire.received.push(Received {
            operation: collective.name(),
            group: self.label.clone(),
            sender,
            dtype: slice.dtype,
            moment,
        });
        let this = wire.received.len() - 1;
        let fault = wire.fault.filter(|(index, _)| *index == this);
        fault.map(|(_, bit)| bit)
    }

    // One of the upper bits of a large element's fraction, which no rounding hides. The last such element: the first queries of a
    // sequence attend to one token whatever their bits are.
    fn flip(&self, slice: RawSlice, bit: u32) -> Kernel {
        let wire = self.wire.clone();
        let kernel = CustomKernel::new("flip a bit").on_host(move |args| {
            let is_hit = match slice.dtype {
                DType::F64 => flip_f64(args, bit)?,
                _ => flip_f32(args, bit)?,
            };
            lock(&wire).is_hit = is_hit;
            Ok(())
        });
        Kernel::Custom(Custom {
            kernel: Arc::new(kernel),
            operands: vec![Operand {
                slice,
                access: Access::ReadWrite,
                in_place: false,
            }],
            numbers: Vec::new(),
            elements: slice.len,
        })
    }
}

fn flip_f32(args: &mut CustomArguments<'_>, bit: u32) -> Result<bool> {
    let numbers = args.write::<f32>(0)?;
    let largest = numbers.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
    let is_large = |x: &&mut f32| x.abs() > 0.0 && x.abs() >= largest / 16.0;
    let last = numbers.iter_mut().rev().find(is_large);
    let flip = |x: f32| f32::from_bits(x.to_bits() ^ (1 << (16 + bit)));
    Ok(last.map(|x| *x = flip(*x)).is_some())
}

fn flip_f64(args: &mut CustomArguments<'_>, bit: u32) -> Result<bool> {
    let numbers = args.write::<f64>(0)?;
    let largest = numbers.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let is_large = |x: &&mut f64| x.abs() > 0.0 && x.abs() >= largest / 16.0;
    let last = numbers.iter_mut().rev().find(is_large);
    let flip = |x: f64| f64::from_bits(x.to_bits() ^ (1 << (45 + bit)));
    Ok(last.map(|x| *x = flip(*x)).is_some())
}

impl fmt::Debug for FaultyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, faulty", self.group)
    }
}
