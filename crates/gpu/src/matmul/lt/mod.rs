//! GEMMs by cuBLASLt and hipBLASLt, which find several algorithms for each, and end a GEMM with a bias and GELU.
//!
//! [`LtMatmuls::num_algorithms`] asks the library, before anything is queued, which algorithms it has for a GEMM with its
//! epilogue. Without one, kernels after the GEMM compute the epilogue. [`shape`] holds what the answer depends on, [`plan`]
//! describes a GEMM to the library, [`search`] asks for algorithms, and [`object`] owns the library's objects.

mod object;
mod plan;
mod search;
mod shape;

use super::layout;
use crate::{
    context::{Context, vendor},
    stream::Core,
    table::{Address, ColumnMajor, Fault, Lt, Outcome},
};
use hal::{Error, Gemm, Result, lock};
use object::Object;
use plan::MatmulPlan;
use shape::Shape;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// Bytes of workspace that an algorithm may use: what NVIDIA advises for its largest devices.
pub(super) const WORKSPACE_BYTES: usize = 32 << 20;

/// One device's GEMMs by the library.
#[derive(Debug)]
pub(super) struct LtMatmuls {
    context: Arc<Context>,
    most_algorithms: usize,
    state: Mutex<LtState>,
}

#[derive(Debug, Default)]
struct LtState {
    plans: HashMap<Shape, MatmulPlan>,
    handle: Option<Object>,
}

impl LtMatmuls {
    /// The GEMMs of a device, with at most that many algorithms for each.
    pub(super) fn new(context: &Arc<Context>, most_algorithms: usize) -> LtMatmuls {
        LtMatmuls {
            context: context.clone(),
            most_algorithms,
            state: Mutex::default(),
        }
    }

    /// Name and version of the library, and the device: an algorithm's number means the same one where this is the same.
    ///
    /// # Errors
    /// [`Error::Vendor`].
    pub(super) fn library(&self) -> Result<String> {
        let version = match &self.context.tables.lt {
            Ok(lt) => self.with_handle(lt, |_, handle| {
                // SAFETY: the handle is live.
                unsafe { lt.version_of(handle.handle()) }
            }),
            Err(_) => Ok("no library".into()),
        };
        let version = version.map_err(|fault| vendor(self.context.id, fault))?;
        Ok(format!("{version} on {}", self.context.properties.name))
    }

    /// The number of algorithms for the GEMM with its epilogue; 0 if the library does not support it.
    ///
    /// # Errors
    /// [`Error::Vendor`] when it does not answer; [`Error::Invalid`] for a size beyond its 32 bits.
    pub(super) fn num_algorithms(&self, gemm: &Gemm) -> Result<usize> {
        let described = self.context.tables.lt.as_ref().ok().zip(described(gemm)?);
        described.map_or(Ok(0), |(lt, (shape, _))| {
            self.with_plan(lt, &shape, |_, plan| Ok(plan.num_algorithms()))
        })
    }

    /// Queues the GEMM with its epilogue by one of its algorithms, which are counted from 0 on.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an algorithm that [`num_algorithms`](LtMatmuls::num_algorithms) does not count;
    /// [`Error::Vendor`].
    ///
    /// # Safety
    /// As for [`hal::Blas::gemm`]; nothing else uses the [`WORKSPACE_BYTES`] at `workspace` until the GEMM has run.
    pub(super) unsafe fn queue(
        &self,
        core: &Core,
        gemm: &Gemm,
        algorithm: usize,
        workspace: Address,
    ) -> Result<()> {
        let refused = |found: usize| {
            let operation = format!("gemm by algorithm {} of {found}", algorithm + 1);
            Error::Unsupported {
                operation,
                dtype: Some(gemm.a.data.dtype),
                device: self.context.id,
            }
        };
        let (lt, described) = (self.context.tables.lt.as_ref().ok(), described(gemm)?);
        let Some((lt, (shape, matmul))) = lt.zip(described) else {
            return Err(refused(0));
        };
        let found = self.with_plan(lt, &shape, |handle, plan| {
            if algorithm < plan.num_algorithms() {
                let (epilogue, stream) = (&gemm.epilogue, core.handle());
                // SAFETY: passed on from the caller.
                unsafe {
                    plan.run(
                        lt,
                        handle,
                        (algorithm, workspace),
                        &matmul,
                        epilogue,
                        stream,
                    )
                }?;
            }
            Ok(plan.num_algorithms())
        })?;
        match algorithm < found {
            true => Ok(()),
            false => Err(refused(found)),
        }
    }

    // Calls `work` with the device's handle, which is made at the first call.
    fn with_handle<T>(
        &self,
        lt: &Lt,
        work: impl FnOnce(&mut HashMap<Shape, MatmulPlan>, &Object) -> Outcome<T>,
    ) -> Outcome<T> {
        let mut state = lock(&self.state);
        let LtState { plans, handle } = &mut *state;
        self.context.outcome(|_| {
            let handle = match handle {
                Some(handle) => handle,
                None => handle.insert(object::handle(&self.context, lt)?),
            };
            work(plans, handle)
        })
    }

    // Calls `work` with the shape's plan, which is made once.
    fn with_plan<T>(
        &self,
        lt: &Lt,
        shape: &Shape,
        work: impl FnOnce(&Object, &MatmulPlan) -> Outcome<T>,
    ) -> Result<T> {
        let outcome = self.with_handle(lt, |plans, handle| {
            if !plans.contains_key(shape) {
                let plan = plan::make(&self.context, lt, handle, shape, self.most_algorithms)?;
                plans.insert(*shape, plan);
            }
            work(handle, &plans[shape])
        });
        outcome.map_err(|fault| {
            let [m, n, k] = shape.sizes();
            let reason = format!("{} ({n} x {m} x {k}, {})", fault.reason, shape.input());
            vendor(self.context.id, Fault { reason, ..fault })
        })
    }
}

// The GEMM in the library's terms, unless no library supports it.
fn described(gemm: &Gemm) -> Result<Option<(Shape, ColumnMajor)>> {
    if gemm.k == 0 {
        return Ok(None);
    }
    let Some(matmul) = layout::column_major(gemm)? else {
        return Ok(None);
    };
    Ok(Shape::of(&matmul, &gemm.epilogue).map(|shape| (shape, matmul)))
}
