//! The state of a random program: two devices with streams and groups, and the tensors made so far.

use crate::calls::ALL;
use fascicle_tensor::{
    Communicator, DType, Device, Error, Event, Result, Stream, StreamKind, Tensor, Var,
};
use std::time::Duration;

/// One call, with every argument that any call might need.
#[derive(Clone, Debug)]
pub struct Step {
    pub call: u8,
    pub tensors: [u8; 6],
    pub sizes: [usize; 5],
    pub numbers: [f64; 3],
    pub choices: [u8; 3],
}

pub struct World {
    pub tensors: Vec<Tensor>,
    /// A tensor over memory that was lent and has gone back.
    pub gone: Option<Tensor>,
    pub vars: Vec<Var>,
    pub events: Vec<Event>,
    pub groups: Vec<Communicator>,
    pub streams: Vec<Stream>,
    pub devices: [Device; 2],
}

const MOST: usize = 24;

impl World {
    pub fn new() -> World {
        let open = || {
            Device::new(cpu::open(cpu::Options {
                memory_bytes: Some(1 << 20),
                ..cpu::Options::default()
            })?)
        };
        let devices = [open().unwrap(), open().unwrap()];
        let mut streams = Vec::new();
        for device in &devices {
            streams.push(device.compute());
            for kind in [StreamKind::Compute, StreamKind::Communication] {
                streams.push(device.create_stream(kind, "another").unwrap());
            }
        }
        let tensors = DType::ALL
            .into_iter()
            .flat_map(|dtype| [(dtype, vec![6, 4]), (dtype, vec![8])])
            .map(|(dtype, shape)| Tensor::zeros(&devices[0], dtype, &shape).unwrap())
            .collect();
        World {
            tensors,
            gone: None,
            vars: Vec::new(),
            events: vec![devices[1].compute().record().unwrap()],
            groups: devices
                .iter()
                .map(|device| alone(device).unwrap())
                .collect(),
            streams,
            devices,
        }
    }

    /// Makes a call; returns which one it was, and whether it succeeded.
    pub fn take(&mut self, step: &Step) -> (usize, bool) {
        let call = usize::from(step.call) % ALL.len();
        let outcome = (ALL[call].1)(self, step);
        // The error must format; other tests check its text.
        let done = outcome.map_err(|error| error.to_string()).is_ok();
        for all in [self.tensors.len(), self.vars.len(), self.events.len()] {
            if all > MOST {
                self.tensors.truncate(MOST);
                self.vars.drain(..self.vars.len().min(4));
                self.events.truncate(1);
            }
        }
        (call, done)
    }

    /// Reads all tensors back, which requires that all queued work has run.
    pub fn read_everything(&self) {
        for tensor in &self.tensors {
            let read = match tensor.dtype() {
                DType::U32 => tensor.to_vec::<u32>().map(|elements| elements.len()),
                DType::I32 => tensor.to_vec::<i32>().map(|elements| elements.len()),
                _ => tensor.to_f64().map(|elements| elements.len()),
            };
            // What is away may find no room to come back to.
            if !matches!(read, Err(Error::OutOfMemory { .. })) {
                assert_eq!(read, Ok(tensor.num_elements()));
            }
        }
    }

    /// One of the tensors.
    pub fn tensor(&self, index: u8) -> Tensor {
        match self.tensors.len() {
            0 => Tensor::zeros(&self.devices[0], DType::F32, &[2]).unwrap(),
            count => self.tensors[usize::from(index) % count].clone(),
        }
    }

    pub fn var(&self, index: u8) -> Var {
        match self.vars.len() {
            0 => Var::tracked(self.tensor(index)).0,
            count => self.vars[usize::from(index) % count].clone(),
        }
    }

    pub fn stream(&self, index: u8) -> &Stream {
        &self.streams[usize::from(index) % self.streams.len()]
    }

    /// Mostly the first device.
    pub fn device(&self, index: u8) -> &Device {
        &self.devices[usize::from(index.is_multiple_of(8))]
    }

    pub fn group(&self, index: u8) -> &Communicator {
        &self.groups[usize::from(index.is_multiple_of(8))]
    }
}

impl Step {
    pub fn dtype(&self) -> DType {
        DType::ALL[usize::from(self.choices[0]) % DType::ALL.len()]
    }

    /// A shape of up to four dims.
    pub fn shape(&self) -> &[usize] {
        &self.sizes[..usize::from(self.choices[1]) % 5]
    }

    /// Whether a call receives arguments that fit each other, or any arguments.
    pub fn fits(&self) -> bool {
        self.choices[2].is_multiple_of(2)
    }

    /// A size below ten.
    pub fn small(&self, index: usize) -> usize {
        self.sizes[index] % 10
    }
}

fn alone(device: &Device) -> Result<Communicator> {
    let join = hal::Join {
        id: device.hal().create_group()?,
        label: "one".into(),
        rank: 0,
        members: vec![0],
        timeout: Duration::from_secs(20),
        abort: Default::default(),
    };
    Communicator::join(device, join, None)
}
