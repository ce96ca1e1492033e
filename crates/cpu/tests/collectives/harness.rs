//! Ranks as threads, with their buffers.

use hal::{
    AbortSignal, Collective, Communicator, DType, Device, GroupId, Join, RawBuffer, RawSlice,
    Result, Stream, StreamKind,
};
use std::{sync::Arc, time::Duration};

/// A rank with a stream of either kind.
pub struct Rank {
    pub rank: usize,
    pub size: usize,
    pub device: Arc<dyn Device>,
    pub compute: Arc<dyn Stream>,
    pub communication: Arc<dyn Stream>,
    pub communicator: Box<dyn Communicator>,
}

impl Rank {
    pub fn stream(&self, kind: StreamKind) -> &dyn Stream {
        match kind {
            StreamKind::Compute => &*self.compute,
            _ => &*self.communication,
        }
    }

    /// A buffer with that content.
    pub fn buffer(&self, dtype: DType, content: &[u8]) -> Buffer {
        let raw = self.device.allocate(content.len()).unwrap();
        let buffer = Buffer {
            device: self.device.clone(),
            raw,
            dtype,
        };
        // SAFETY: just allocated with this size.
        unsafe { self.compute.upload(raw, content) }.unwrap();
        buffer
    }

    /// A buffer of zeros.
    pub fn zeros(&self, dtype: DType, len: usize) -> Buffer {
        self.buffer(dtype, &vec![0; len * dtype.bytes()])
    }

    /// Runs collectives; `buffers` are the ones they use, alive until the caller has waited for the stream.
    pub fn run(
        &self,
        stream: &dyn Stream,
        calls: &[Collective],
        buffers: &[&Buffer],
    ) -> Result<()> {
        let known = |slice: &RawSlice| {
            slice.len == 0
                || buffers.iter().any(|b| {
                    slice.addr >= b.raw.addr
                        && slice.addr + slice.bytes() as u64 <= b.raw.addr + b.raw.bytes as u64
                })
        };
        assert!(
            calls
                .iter()
                .filter_map(Collective::buffer)
                .all(|slice| known(&slice))
        );
        // SAFETY: the tests pass buffers of the right lengths and keep them until the stream has passed.
        unsafe { self.communicator.run(stream, calls) }
    }

    /// Runs one collective, and waits for it.
    pub fn run_now(&self, kind: StreamKind, call: Collective, buffers: &[&Buffer]) -> Result<()> {
        self.run(self.stream(kind), &[call], buffers)?;
        self.stream(kind).synchronize()
    }
}

/// Memory that is freed when dropped.
pub struct Buffer {
    device: Arc<dyn Device>,
    raw: RawBuffer,
    dtype: DType,
}

impl Buffer {
    pub fn slice(&self) -> RawSlice {
        RawSlice {
            addr: self.raw.addr,
            len: self.raw.bytes / self.dtype.bytes(),
            dtype: self.dtype,
        }
    }

    /// The content, once all work on it has run.
    pub fn content(&self) -> Vec<u8> {
        let mut content = vec![0; self.raw.bytes];
        let stream = self.device.create_stream(StreamKind::Compute).unwrap();
        // SAFETY: the buffer is live and of that size.
        unsafe { stream.download(&mut content, self.raw) }.unwrap();
        content
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: from this device, once; tests drop buffers after their stream has passed.
        unsafe { self.device.deallocate(self.raw) };
    }
}

/// How ranks are started.
pub struct Group {
    pub id: GroupId,
    pub size: usize,
    pub timeout: Duration,
    pub abort: Arc<AbortSignal>,
}

impl Group {
    pub fn new(size: usize) -> Group {
        let id = device(0).create_group().unwrap();
        Group {
            id,
            size,
            timeout: Duration::from_secs(60),
            abort: Arc::new(AbortSignal::new()),
        }
    }

    pub fn timeout_ms(mut self, timeout: u64) -> Group {
        self.timeout = Duration::from_millis(timeout);
        self
    }

    /// World ranks are 10 more than ranks, so that a test notices if one is mistaken for the other.
    pub fn join(&self, rank: usize) -> Join {
        Join {
            id: self.id.clone(),
            label: "axis T".into(),
            rank,
            members: (10..10 + self.size).collect(),
            timeout: self.timeout,
            abort: self.abort.clone(),
        }
    }

    pub fn rank(&self, rank: usize) -> Result<Rank> {
        let device = device(rank);
        let compute = device.create_stream(StreamKind::Compute)?;
        let communication = device.create_stream(StreamKind::Communication)?;
        let communicator = device.join(self.join(rank))?;
        assert_eq!(
            (communicator.rank(), communicator.size()),
            (rank, self.size)
        );
        Ok(Rank {
            rank,
            size: self.size,
            device,
            compute,
            communication,
            communicator,
        })
    }

    /// Runs `work` on every rank; results in the order of ranks.
    pub fn run<T: Send>(&self, work: impl Fn(Rank) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let start = |rank| {
                let work = &work;
                scope.spawn(move || work(self.rank(rank).unwrap()))
            };
            let threads: Vec<_> = (0..self.size).map(start).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        })
    }
}

pub fn device(ordinal: usize) -> Arc<dyn Device> {
    fascicle_cpu::open(fascicle_cpu::Options {
        ordinal,
        ..Default::default()
    })
    .unwrap()
}
