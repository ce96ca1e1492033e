//! Objects that the library creates.

use crate::{
    context::Context,
    table::{
        Lt, Named, Opaque, Outcome, Status,
        lt::{Destroy, Set},
    },
};
use std::{ffi::c_int, fmt, sync::Arc};

/// An object of the library, destroyed when dropped.
pub(super) struct Object {
    context: Arc<Context>,
    // A number, because we only ever pass the library's pointer back to it.
    handle: usize,
    destroy: Named<Destroy>,
}

/// The device's handle.
pub(super) fn handle(context: &Arc<Context>, lt: &Lt) -> Outcome<Object> {
    let (create, destroy) = (lt.functions.create, lt.functions.destroy);
    // SAFETY: the function writes the handle that it makes, for the thread's context.
    Object::made(context, lt, create.name, destroy, |handle| unsafe {
        (create.function)(handle)
    })
}

impl Object {
    /// The object that `make` writes.
    pub(super) fn made(
        context: &Arc<Context>,
        lt: &Lt,
        call: &'static str,
        destroy: Named<Destroy>,
        make: impl FnOnce(*mut Opaque) -> Status,
    ) -> Outcome<Object> {
        let mut handle = std::ptr::null_mut();
        lt.check(call, make(&mut handle))?;
        Ok(Object {
            context: context.clone(),
            handle: handle.expose_provenance(),
            destroy,
        })
    }

    /// Sets an attribute by `set`, the function for objects of this kind.
    pub(super) fn set<T: Copy>(
        &self,
        lt: &Lt,
        set: Named<Set>,
        attribute: c_int,
        value: T,
    ) -> Outcome<()> {
        // SAFETY: the object is live; the function copies a value of the type that the attribute documents.
        let status = unsafe {
            (set.function)(
                self.handle(),
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        };
        lt.check(set.name, status)
    }

    /// The library's pointer.
    pub(super) fn handle(&self) -> Opaque {
        std::ptr::with_exposed_provenance_mut(self.handle)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let Ok(lt) = &self.context.tables.lt else {
            return;
        };
        self.context.release(|_| {
            // SAFETY: the object is live, and nothing else holds it; queued work does not need it.
            let destroyed = unsafe { (self.destroy.function)(self.handle()) };
            lt.check(self.destroy.name, destroyed)
        });
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Object({:#x}, ended by {})",
            self.handle, self.destroy.name
        )
    }
}
