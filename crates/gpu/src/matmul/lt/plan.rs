//! A GEMM, described to the library, and the algorithms that the library found for it.

use super::{
    WORKSPACE_BYTES,
    object::Object,
    search::{self, Algorithm},
    shape::{self, ALIGNMENT, Shape},
};
use crate::{
    context::Context,
    table::{Address, ColumnMajor, Handle, Lt, Outcome},
};
use hal::{DType, Epilogue};
use std::{
    ffi::{c_int, c_void},
    sync::Arc,
};

/// Descriptions of the GEMM and of A, B and C, and the algorithms for it, the one that the library expects to be fastest
/// first.
#[derive(Debug)]
pub(super) struct MatmulPlan {
    matmul: Object,
    matrices: [Object; 3],
    algorithms: Vec<Algorithm>,
}

/// The library's plan for a GEMM of that shape, with at most `most` algorithms; without any if no algorithm serves it.
pub(super) fn make(
    context: &Arc<Context>,
    lt: &Lt,
    handle: &Object,
    shape: &Shape,
    most: usize,
) -> Outcome<MatmulPlan> {
    let [m, n, k] = shape.sizes();
    let stored = |transposed: bool, rows, columns| {
        if transposed {
            [columns, rows]
        } else {
            [rows, columns]
        }
    };
    let [a_transposed, b_transposed] = shape.transposed();
    let sizes = [
        stored(a_transposed, m, k),
        stored(b_transposed, k, n),
        [m, n],
    ];
    let types = [shape.input(), shape.input(), shape.output()];
    let matrix = |index: usize| {
        matrix(
            context,
            lt,
            types[index],
            sizes[index],
            shape.leading()[index],
        )
    };
    let matrices = [matrix(0)?, matrix(1)?, matrix(2)?];
    let matmul = matmul(context, lt, shape)?;
    let algorithms = search::find(context, lt, handle, &matmul, &matrices, most)?;
    Ok(MatmulPlan {
        matmul,
        matrices,
        algorithms,
    })
}

fn number(dtype: DType) -> c_int {
    Lt::data_type(dtype).expect("a shape has types that the libraries know")
}

fn matrix(
    context: &Arc<Context>,
    lt: &Lt,
    dtype: DType,
    [rows, columns]: [i32; 2],
    leading: i32,
) -> Outcome<Object> {
    let (create, destroy) = (lt.functions.create_matrix, lt.functions.destroy_matrix);
    let [rows, columns] = [rows, columns].map(|size| u64::from(size.unsigned_abs()));
    Object::made(context, lt, create.name, destroy, |made| {
        // SAFETY: the function writes the description that it makes.
        unsafe { (create.function)(made, number(dtype), rows, columns, leading.into()) }
    })
}

fn matmul(context: &Arc<Context>, lt: &Lt, shape: &Shape) -> Outcome<Object> {
    let (create, destroy, values) = (
        lt.functions.create_matmul,
        lt.functions.destroy_matmul,
        &lt.values,
    );
    let matmul = Object::made(context, lt, create.name, destroy, |made| {
        // SAFETY: the function writes the description that it makes.
        unsafe { (create.function)(made, values.compute_f32, number(DType::F32)) }
    })?;
    let set = lt.functions.set_matmul;
    for (attribute, transposed) in values.transposed.into_iter().zip(shape.transposed()) {
        let operation = values.operations[usize::from(transposed)];
        matmul.set(lt, set, attribute, operation)?;
    }
    matmul.set(lt, set, values.epilogue, shape.epilogue())?;
    // The search takes alignments from these addresses, and reads nothing there.
    let somewhere = ALIGNMENT as Address;
    if shape.has_bias() {
        matmul.set(lt, set, values.bias_type, number(shape.output()))?;
        matmul.set(lt, set, values.bias, somewhere)?;
    }
    if shape.has_sum() {
        let leading = i64::from(shape.sizes()[0]);
        matmul.set(lt, set, values.sum_leading, leading)?;
        matmul.set(lt, set, values.sum, somewhere)?;
    }
    Ok(matmul)
}

impl MatmulPlan {
    /// The number of its algorithms.
    pub(super) fn num_algorithms(&self) -> usize {
        self.algorithms.len()
    }

    /// Queues the GEMM with one of its algorithms, which works in [`WORKSPACE_BYTES`] at `workspace`.
    ///
    /// # Safety
    /// The GEMM has the plan's shape and epilogue; its matrices and those of the epilogue are live until it has run;
    /// the workspace is used by this stream alone; the plan is used by one thread at a time.
    pub(super) unsafe fn run(
        &self,
        lt: &Lt,
        handle: &Object,
        (algorithm, workspace): (usize, Address),
        matmul: &ColumnMajor,
        epilogue: &Epilogue,
        stream: Handle,
    ) -> Outcome<()> {
        let [bias, sum] = shape::addresses(epilogue);
        for (attribute, address) in [(lt.values.bias, bias), (lt.values.sum, sum)] {
            if let Some(address) = address {
                self.matmul
                    .set(lt, lt.functions.set_matmul, attribute, address)?;
            }
        }
        let [a, b, c] = matmul.addresses.map(pointer);
        let [layout_a, layout_b, layout_c] = self.matrices.each_ref().map(Object::handle);
        let (alpha, beta) = (matmul.alpha as f32, matmul.beta as f32);
        let multiply = lt.functions.multiply;
        // SAFETY: all objects are live, and the algorithm is one that was found for them; the scales are read
        // before the call returns; the caller vouches for the rest.
        let status = unsafe {
            (multiply.function)(
                handle.handle(),
                self.matmul.handle(),
                (&raw const alpha).cast(),
                a,
                layout_a,
                b,
                layout_b,
                (&raw const beta).cast(),
                c,
                layout_c,
                c,
                layout_c,
                self.algorithms[algorithm].as_ptr().cast(),
                pointer(workspace),
                WORKSPACE_BYTES,
                std::ptr::without_provenance_mut(stream),
            )
        };
        lt.check(multiply.name, status)
    }
}

fn pointer(address: Address) -> *mut c_void {
    std::ptr::without_provenance_mut(address as usize)
}
