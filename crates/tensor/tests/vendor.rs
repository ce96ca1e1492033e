//! A vendor unknown to this workspace: it has a name, implements the seam's traits, and passes in its driver.

use fascicle_tensor::{DType, Device, Error, Result, Tensor, ops};
use hal::{
    Blas, Capabilities, Communicator, DeviceId, Driver, GroupId, Join, Kernels, Memory,
    OpenOptions, Probe, RawBuffer, Stream, StreamKind, VendorId, driver,
};
use std::sync::Arc;

const MINE: VendorId = VendorId::new("mine");

/// The processor under another name.
#[derive(Debug)]
struct Mine(Arc<dyn hal::Device>);

// SAFETY: apart from the name, all answers are the CPU's own.
unsafe impl hal::Device for Mine {
    fn id(&self) -> DeviceId {
        DeviceId {
            vendor: MINE,
            ordinal: self.0.id().ordinal,
        }
    }
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }
    fn memory(&self) -> Result<Memory> {
        self.0.memory()
    }
    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.0.allocate(bytes)
    }
    unsafe fn deallocate(&self, buffer: RawBuffer) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.deallocate(buffer) }
    }
    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>> {
        self.0.create_stream(kind)
    }
    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        self.0.create_blas()
    }
    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        self.0.kernels()
    }
    fn create_group(&self) -> Result<GroupId> {
        self.0.create_group()
    }
    fn join(&self, join: Join) -> Result<Box<dyn Communicator>> {
        self.0.join(join)
    }
}

fn mine() -> Driver {
    Driver {
        vendor: MINE,
        open: |options| {
            let OpenOptions { ordinal, .. } = options;
            let inner = cpu::open(cpu::Options {
                ordinal,
                ..cpu::Options::default()
            })?;
            Ok(Arc::new(Mine(inner)))
        },
        probe: || Probe {
            usable: true,
            findings: Vec::new(),
        },
    }
}

#[test]
fn a_vendor_from_elsewhere_computes() -> Result<()> {
    let found = driver::carried(Some(MINE.name()), &[cpu::driver(), mine()])?;
    let options = OpenOptions {
        ordinal: 2,
        ..OpenOptions::default()
    };
    let device = Device::new((driver::usable(&found)?.open)(options)?)?;
    let x = Tensor::full(&device, DType::F32, &[3], 1.5)?;
    assert_eq!(ops::add(&x, &x)?.to_vec::<f32>()?, [3.0; 3]);
    assert_eq!(format!("{x:?}"), "Tensor(f32 [3] on mine:2)");
    let on_cpu = Device::new(cpu::open(cpu::Options::default())?)?;
    let y = Tensor::full(&on_cpu, DType::F32, &[3], 1.5)?;
    assert!(matches!(ops::add(&x, &y), Err(Error::Invalid { .. })));
    Ok(())
}
