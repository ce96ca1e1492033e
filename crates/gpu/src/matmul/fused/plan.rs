//! A GEMM with an epilogue, described to the library, and the algorithm that the library chose for it.

use super::{
    WORKSPACE_BYTES,
    object::Object,
    shape::{self, ALIGNMENT, Shape},
};
use crate::{
    context::Context,
    table::{
        Address, ColumnMajor, Handle, Lt, Named, Outcome,
        lt::{MAX_WORKSPACE, Set},
    },
};
use hal::{DType, Epilogue};
use std::{
    ffi::{c_int, c_void},
    sync::Arc,
};

/// Descriptions of the GEMM and of A, B and C, and an algorithm.
#[derive(Debug)]
pub(super) struct MatmulPlan {
    matmul: Object,
    matrices: [Object; 3],
    found: Found,
}

/// The result of a search: an algorithm first, its status further on. Larger than either library's result.
type Found = [u64; 32];

/// The library's plan for a GEMM of that shape, if it has one.
pub(super) fn make(
    context: &Arc<Context>,
    lt: &Lt,
    handle: &Object,
    shape: &Shape,
) -> Outcome<Option<MatmulPlan>> {
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
    let found = find(context, lt, handle, &matmul, &matrices)?;
    Ok(found.map(|found| MatmulPlan {
        matmul,
        matrices,
        found,
    }))
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
    let set = |attribute, value| set(lt, lt.functions.set_matmul, &matmul, attribute, value);
    for (attribute, transposed) in values.transposed.into_iter().zip(shape.transposed()) {
        set(attribute, values.operations[usize::from(transposed)])?;
    }
    set(values.bias_type, number(shape.output()))?;
    self::set(
        lt,
        lt.functions.set_matmul,
        &matmul,
        values.epilogue,
        shape.epilogue(),
    )?;
    // The search takes alignments from these addresses, and reads nothing there.
    let somewhere = ALIGNMENT as Address;
    if shape.has_bias() {
        self::set(lt, lt.functions.set_matmul, &matmul, values.bias, somewhere)?;
    }
    if shape.has_sum() {
        let leading = i64::from(shape.sizes()[0]);
        self::set(
            lt,
            lt.functions.set_matmul,
            &matmul,
            values.sum_leading,
            leading,
        )?;
        self::set(lt, lt.functions.set_matmul, &matmul, values.sum, somewhere)?;
    }
    Ok(matmul)
}

fn find(
    context: &Arc<Context>,
    lt: &Lt,
    handle: &Object,
    matmul: &Object,
    [a, b, c]: &[Object; 3],
) -> Outcome<Option<Found>> {
    let functions = &lt.functions;
    let (create, destroy) = (functions.create_wishes, functions.destroy_wishes);
    // SAFETY: the function writes the object that it makes.
    let wishes = Object::made(context, lt, create.name, destroy, |made| unsafe {
        (create.function)(made)
    })?;
    set(
        lt,
        functions.set_wishes,
        &wishes,
        MAX_WORKSPACE,
        WORKSPACE_BYTES as u64,
    )?;
    for alignment in lt.values.alignments.into_iter().flatten() {
        set(
            lt,
            functions.set_wishes,
            &wishes,
            alignment,
            ALIGNMENT as u32,
        )?;
    }
    if let Some((reduction, scheme)) = lt.values.reduction {
        set(lt, functions.set_wishes, &wishes, reduction, scheme)?;
    }
    let (mut found, mut count): (Found, c_int) = ([0; 32], 0);
    // SAFETY: all objects are live; `found` has room for the one result that is asked for.
    let status = unsafe {
        (functions.find.function)(
            handle.handle(),
            matmul.handle(),
            a.handle(),
            b.handle(),
            c.handle(),
            c.handle(),
            wishes.handle(),
            1,
            found.as_mut_ptr().cast(),
            &mut count,
        )
    };
    if lt.values.refusals.contains(&status) {
        return Ok(None);
    }
    lt.check(functions.find.name, status)?;
    let bytes: &[u8] = bytemuck::cast_slice(&found);
    let told = &bytes[lt.values.status_offset..][..size_of::<c_int>()];
    Ok((count > 0 && told.iter().all(|byte| *byte == 0)).then_some(found))
}

// Sets an attribute of an object of the library.
fn set<T: Copy>(
    lt: &Lt,
    set: Named<Set>,
    object: &Object,
    attribute: c_int,
    value: T,
) -> Outcome<()> {
    // SAFETY: the object is live; the function copies a value of the type that the attribute documents.
    let status = unsafe {
        (set.function)(
            object.handle(),
            attribute,
            (&raw const value).cast(),
            size_of::<T>(),
        )
    };
    lt.check(set.name, status)
}

impl MatmulPlan {
    /// Queues the GEMM.
    ///
    /// # Safety
    /// The GEMM has the plan's shape and epilogue; its matrices and those of the epilogue are live until it has run;
    /// the workspace is used by this stream alone; the plan is used by one thread at a time.
    pub(super) unsafe fn run(
        &self,
        lt: &Lt,
        handle: &Object,
        matmul: &ColumnMajor,
        epilogue: &Epilogue,
        (workspace, bytes): (Address, usize),
        stream: Handle,
    ) -> Outcome<()> {
        let [bias, sum] = shape::addresses(epilogue);
        for (attribute, address) in [(lt.values.bias, bias), (lt.values.sum, sum)] {
            if let Some(address) = address {
                set(
                    lt,
                    lt.functions.set_matmul,
                    &self.matmul,
                    attribute,
                    address,
                )?;
            }
        }
        let [a, b, c] = matmul.addresses.map(pointer);
        let [layout_a, layout_b, layout_c] = self.matrices.each_ref().map(Object::handle);
        let (alpha, beta) = (matmul.alpha as f32, matmul.beta as f32);
        let multiply = lt.functions.multiply;
        // SAFETY: all objects are live, and the algorithm is the one that was found for them; the scales are read
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
                self.found.as_ptr().cast(),
                pointer(workspace),
                bytes,
                std::ptr::without_provenance_mut(stream),
            )
        };
        lt.check(multiply.name, status)
    }
}

fn pointer(address: Address) -> *mut c_void {
    std::ptr::without_provenance_mut(address as usize)
}
