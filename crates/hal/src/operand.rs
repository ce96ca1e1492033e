//! The memory that work names, and how the work accesses it.
//!
//! A kernel, a GEMM and a collective each list their operands in one method, which stands beside their fields.
//! Everything else that needs the operands (the shell's ordering and overlap rules, a trace, a simulated
//! vendor) calls that method.

use crate::RawSlice;

/// How work accesses an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads it.
    Read,
    /// Overwrites it; the previous content is not read.
    Write,
    /// Reads and writes it.
    ReadWrite,
}

impl Access {
    /// Whether the operand is read.
    pub const fn reads(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }

    /// Whether the operand is written.
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }
}

/// A run of elements that work reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The elements.
    pub slice: RawSlice,
    /// How the work accesses it.
    pub access: Access,
    /// Whether a written operand may be the same slice as one that is read. Otherwise it overlaps nothing.
    pub in_place: bool,
}

impl Operand {
    /// Bytes that the work moves here: an operand that is both read and written counts twice.
    pub fn moved_bytes(&self) -> usize {
        let times = usize::from(self.access.reads()) + usize::from(self.access.writes());
        times * self.slice.bytes()
    }
}

/// How the work accesses a field, whatever slice it holds.
#[derive(Clone, Copy)]
pub(crate) struct Role {
    access: Access,
    in_place: bool,
}

pub(crate) const READ: Role = Role::new(Access::Read);
pub(crate) const WRITE: Role = Role::new(Access::Write);
pub(crate) const UPDATE: Role = Role::new(Access::ReadWrite);

impl Role {
    const fn new(access: Access) -> Role {
        Role {
            access,
            in_place: false,
        }
    }

    /// The access of `beta * old + new`: with `beta` 0 the old values are not read.
    pub(crate) fn scaled_by(beta: f64) -> Role {
        if beta == 0.0 { WRITE } else { UPDATE }
    }

    /// The same access, where the result may replace an input.
    pub(crate) const fn in_place(self) -> Role {
        Role {
            in_place: true,
            ..self
        }
    }

    pub(crate) fn of(self, slice: RawSlice) -> Operand {
        let Role { access, in_place } = self;
        Operand {
            slice,
            access,
            in_place,
        }
    }
}

/// A field that holds operands: one, an optional one, or several.
pub(crate) trait Slices {
    fn each(&self, visit: &mut dyn FnMut(RawSlice));
}

impl Slices for RawSlice {
    fn each(&self, visit: &mut dyn FnMut(RawSlice)) {
        visit(*self);
    }
}

impl<T: Slices> Slices for Option<T> {
    fn each(&self, visit: &mut dyn FnMut(RawSlice)) {
        self.iter().for_each(|slices| slices.each(visit));
    }
}

impl<const N: usize> Slices for [RawSlice; N] {
    fn each(&self, visit: &mut dyn FnMut(RawSlice)) {
        self.iter().copied().for_each(visit);
    }
}

impl Slices for Vec<RawSlice> {
    fn each(&self, visit: &mut dyn FnMut(RawSlice)) {
        self.iter().copied().for_each(visit);
    }
}

/// Defines the operands of a struct: `Name { field: ROLE, ..; other fields }`. Omitting a field does not
/// compile.
macro_rules! operands {
    ($($name:ident { $($field:ident: $role:expr),* $(,)? $(; $($other:ident),*)? })*) => {
        $(impl $name {
            pub(crate) fn operands(&self, visit: &mut dyn FnMut($crate::Operand)) {
                let $name { $($field,)* $($($other,)*)? } = self;
                $($(let _ = $other;)*)?
                $($crate::operand::Slices::each($field, &mut |slice| visit(($role).of(slice)));)*
            }
        })*
    };
}

pub(crate) use operands;
