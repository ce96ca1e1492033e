//! The search for the algorithms of a GEMM.

use super::{WORKSPACE_BYTES, object::Object, shape::ALIGNMENT};
use crate::{
    context::Context,
    table::{Lt, Outcome, lt::MAX_WORKSPACE},
};
use std::{ffi::c_int, sync::Arc};

/// The result of a search as the library stored it: an algorithm first, its status further on.
pub(super) type Algorithm = Vec<u64>;

/// The first algorithms for a GEMM of those descriptions, at most `most` of them; none if the library has none.
pub(super) fn find(
    context: &Arc<Context>,
    lt: &Lt,
    handle: &Object,
    matmul: &Object,
    [a, b, c]: &[Object; 3],
    most: usize,
) -> Outcome<Vec<Algorithm>> {
    let functions = &lt.functions;
    let (create, destroy) = (functions.create_wishes, functions.destroy_wishes);
    // SAFETY: the function writes the object that it makes.
    let wishes = Object::made(context, lt, create.name, destroy, |made| unsafe {
        (create.function)(made)
    })?;
    let set = functions.set_wishes;
    wishes.set(lt, set, MAX_WORKSPACE, WORKSPACE_BYTES as u64)?;
    for alignment in lt.values.alignments.into_iter().flatten() {
        wishes.set(lt, set, alignment, ALIGNMENT as u32)?;
    }
    if let Some((reduction, scheme)) = lt.values.reduction {
        wishes.set(lt, set, reduction, scheme)?;
    }
    let words = lt.values.result_bytes / size_of::<u64>();
    let (mut results, mut count): (_, c_int) = (vec![0u64; most * words], 0);
    // SAFETY: all objects are live; `results` has room for as many results as are asked for.
    let status = unsafe {
        (functions.find.function)(
            handle.handle(),
            matmul.handle(),
            a.handle(),
            b.handle(),
            c.handle(),
            c.handle(),
            wishes.handle(),
            most as c_int,
            results.as_mut_ptr().cast(),
            &mut count,
        )
    };
    if lt.values.refusals.contains(&status) {
        return Ok(Vec::new());
    }
    lt.check(functions.find.name, status)?;
    let serves = |result: &&[u64]| {
        let bytes: &[u8] = bytemuck::cast_slice(result);
        let status = &bytes[lt.values.status_offset..][..size_of::<c_int>()];
        status.iter().all(|byte| *byte == 0)
    };
    let found = results.chunks(words).take(count.max(0) as usize);
    Ok(found.filter(serves).map(<[u64]>::to_vec).collect())
}
