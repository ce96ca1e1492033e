//! GEMMs that end with a bias and GELU, run by cuBLASLt and hipBLASLt.
//!
//! [`FusedMatmuls::takes`] asks the library, before anything is queued, whether it supports an epilogue; kernels after the
//! GEMM compute those that it does not. [`shape`] holds what the answer depends on, [`plan`] describes a GEMM to the
//! library, and [`object`] owns the library's objects.

mod object;
mod plan;
mod shape;

use super::layout;
use crate::{
    context::{Context, vendor},
    stream::Core,
    table::{ColumnMajor, Fault, Lt, Outcome},
};
use hal::{Epilogue, Error, Gemm, Result, lock};
use object::Object;
use plan::MatmulPlan;
use shape::Shape;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// Bytes of workspace that an algorithm may use: what NVIDIA advises for its largest devices.
const WORKSPACE_BYTES: usize = 32 << 20;

/// One device's GEMMs with an epilogue.
#[derive(Debug)]
pub(super) struct FusedMatmuls {
    context: Arc<Context>,
    state: Mutex<CachedPlans>,
}

#[derive(Debug, Default)]
struct CachedPlans {
    // `None` for a shape that the library does not support.
    plans: HashMap<Shape, Option<MatmulPlan>>,
    handle: Option<Object>,
}

impl FusedMatmuls {
    pub(super) fn new(context: &Arc<Context>) -> FusedMatmuls {
        FusedMatmuls {
            context: context.clone(),
            state: Mutex::default(),
        }
    }

    /// Whether the library supports the GEMM with its epilogue.
    ///
    /// # Errors
    /// [`Error::Vendor`] when it does not answer; [`Error::Invalid`] for a size beyond its 32 bits.
    pub(super) fn takes(&self, gemm: &Gemm) -> Result<bool> {
        let Ok(lt) = &self.context.tables.lt else {
            return Ok(false);
        };
        let Some((shape, _)) = described(gemm)? else {
            return Ok(false);
        };
        self.with_plan(lt, &shape, |_, _| Ok(()))
            .map(|taken| taken.is_some())
    }

    /// Queues the GEMM with its epilogue.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for one that [`takes`](FusedMatmuls::takes) refuses; [`Error::OutOfMemory`] of the
    /// workspace; [`Error::Vendor`].
    ///
    /// # Safety
    /// As for [`hal::Blas::gemm`].
    pub(super) unsafe fn queue(&self, core: &Core, gemm: &Gemm) -> Result<()> {
        let refused = || {
            let dtype = gemm.a.data.dtype;
            Error::Unsupported {
                operation: "gemm with an epilogue".into(),
                dtype: Some(dtype),
                device: self.context.id,
            }
        };
        let (lt, described) = (self.context.tables.lt.as_ref().ok(), described(gemm)?);
        let Some((lt, (shape, matmul))) = lt.zip(described) else {
            return Err(refused());
        };
        let workspace = (core.scratch(WORKSPACE_BYTES)?, WORKSPACE_BYTES);
        let queued = self.with_plan(lt, &shape, |handle, plan| {
            // SAFETY: the caller vouches for the matrices; the workspace is this stream's, whose work uses it in turn.
            unsafe {
                plan.run(
                    lt,
                    handle,
                    &matmul,
                    &gemm.epilogue,
                    workspace,
                    core.handle(),
                )
            }
        })?;
        queued.ok_or_else(refused)
    }

    // Calls `work` with the shape's plan, if the library has one.
    fn with_plan<T>(
        &self,
        lt: &Lt,
        shape: &Shape,
        work: impl FnOnce(&Object, &MatmulPlan) -> Outcome<T>,
    ) -> Result<Option<T>> {
        let mut state = lock(&self.state);
        let CachedPlans { plans, handle } = &mut *state;
        let outcome = self.context.outcome(|_| {
            let handle = match handle {
                Some(handle) => handle,
                None => handle.insert(object::handle(&self.context, lt)?),
            };
            if !plans.contains_key(shape) {
                plans.insert(*shape, plan::make(&self.context, lt, handle, shape)?);
            }
            plans[shape]
                .as_ref()
                .map(|plan| work(handle, plan))
                .transpose()
        });
        outcome.map_err(|fault| {
            let [m, n, k] = shape.sizes();
            let reason = format!(
                "{} ({n} x {m} x {k}, {}, with an epilogue)",
                fault.reason,
                shape.input()
            );
            vendor(self.context.id, Fault { reason, ..fault })
        })
    }
}

// The GEMM in the library's terms, unless no library supports it.
fn described(gemm: &Gemm) -> Result<Option<(Shape, ColumnMajor)>> {
    if gemm.epilogue == Epilogue::None || gemm.k == 0 {
        return Ok(None);
    }
    let Some(matmul) = layout::column_major(gemm)? else {
        return Ok(None);
    };
    Ok(Shape::of(&matmul, &gemm.epilogue).map(|shape| (shape, matmul)))
}
