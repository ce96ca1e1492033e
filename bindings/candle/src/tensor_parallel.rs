//! The two operations with which a forward pass enters and leaves a part that is cut over ranks.

use crate::{Error, Result, storage::with_floats};
use candle_core::{CpuStorage, CustomOp1, Layout, Shape, Tensor};
use library::{collective::AxisGroup, hal, tensor::ReduceOp};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

/// All-reduces within the forward and backward passes of a model whose weights are cut over the ranks of a group.
///
/// An MLP with the first weight cut by its outputs and the second by its inputs (a column-parallel and a row-parallel layer in
/// Megatron's words):
///
/// ```
/// use candle_core::{Result, Tensor};
/// use fascicle_candle::TensorParallel;
///
/// fn forward(parallel: &TensorParallel, up: &Tensor, down: &Tensor, x: &Tensor) -> Result<Tensor> {
///     let x = parallel.all_reduce_gradient(x)?;               // every rank has all of x
///     let hidden = x.matmul(&up.t()?)?.relu()?;               // a rank's share of the hidden units
///     parallel.all_reduce(&hidden.matmul(&down.t()?)?)        // the sum of all ranks' shares
/// }
/// ```
///
/// candle wants operations that may move between threads, and a group stays on the thread of its rank. So an operation names its
/// group, which this value keeps for the thread: `backward()` runs on the thread of `forward`, while this value exists.
///
/// # Source
/// Megatron-LM (arXiv:1909.08053), section 3: the operators f and g.
#[derive(Debug)]
pub struct TensorParallel {
    key: u64,
    // Stays on its thread, as the entry does.
    _group: Rc<AxisGroup>,
}

thread_local! {
    static GROUPS: RefCell<HashMap<u64, Rc<AxisGroup>>> = RefCell::default();
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

impl TensorParallel {
    /// Operations over the ranks of a group.
    pub fn new(group: &AxisGroup) -> TensorParallel {
        let (key, group) = (NEXT.replace(NEXT.get() + 1), Rc::new(group.clone()));
        GROUPS.with_borrow_mut(|groups| groups.insert(key, group.clone()));
        TensorParallel { key, _group: group }
    }

    /// The sum of all ranks' tensors; its gradient passes through unchanged (g). Collective.
    ///
    /// # Cost
    /// One copy, which becomes the result: tensors of candle are immutable. Elements that are not contiguous are gathered first.
    ///
    /// # Errors
    /// Those of [`AxisGroup::all_reduce`], for tensors that are not of floats, and of a device other than the CPU.
    pub fn all_reduce(&self, tensor: &Tensor) -> candle_core::Result<Tensor> {
        tensor
            .contiguous()?
            .apply_op1(self.operation(Pass::Forward))
    }

    /// The tensor itself; its gradient is the sum of all ranks' gradients (f). Backward through it is collective.
    ///
    /// # Cost
    /// One copy forward, because candle's operations return memory of their own, and one backward, which becomes the gradient.
    ///
    /// # Errors
    /// As [`all_reduce`](TensorParallel::all_reduce), in the backward pass.
    pub fn all_reduce_gradient(&self, tensor: &Tensor) -> candle_core::Result<Tensor> {
        tensor
            .contiguous()?
            .apply_op1(self.operation(Pass::Backward))
    }

    fn operation(&self, reduced: Pass) -> AllReduce {
        let key = self.key;
        AllReduce { key, reduced }
    }
}

impl Drop for TensorParallel {
    fn drop(&mut self) {
        // Thread-locals may be gone when a thread ends.
        let _ = GROUPS.try_with(|groups| groups.borrow_mut().remove(&self.key));
    }
}

/// The pass in which an operation reduces; in the other it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pass {
    Forward,
    Backward,
}

#[derive(Debug)]
struct AllReduce {
    key: u64,
    reduced: Pass,
}

impl AllReduce {
    fn group(&self) -> Result<Rc<AxisGroup>> {
        let found = GROUPS.with_borrow(|groups| groups.get(&self.key).cloned());
        found.ok_or_else(|| {
            let found = "another thread, or a TensorParallel that was dropped";
            hal::Error::invalid(
                self.name(),
                found,
                "the thread of the rank, with its TensorParallel",
            )
            .into()
        })
    }
}

impl CustomOp1 for AllReduce {
    fn name(&self) -> &'static str {
        match self.reduced {
            Pass::Forward => "all_reduce",
            Pass::Backward => "all_reduce_gradient",
        }
    }

    fn cpu_fwd(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let copy = with_floats!(
            storage,
            |elements, Kind| {
                let (start, end) = layout.contiguous_offsets().expect("made contiguous by callers");
                let mut copy = elements[start..end].to_vec();
                if self.reduced == Pass::Forward {
                    let reduced = self.group()?.all_reduce(&mut copy, ReduceOp::Sum);
                    reduced.map_err(Error::from)?;
                }
                Kind(copy)
            },
            else {
                let other = hal::Error::invalid(self.name(), "integers", "a float type");
                return Err(Error::from(other).into());
            }
        );
        Ok((copy, layout.shape().clone()))
    }

    fn bwd(
        &self,
        _: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> candle_core::Result<Option<Tensor>> {
        Ok(Some(match self.reduced {
            Pass::Forward => gradient.clone(),
            Pass::Backward => gradient.contiguous()?.apply_op1_no_bwd(&AllReduce {
                key: self.key,
                reduced: Pass::Forward,
            })?,
        }))
    }
}
