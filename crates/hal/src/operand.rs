//! The memory that work names, and what it does there.
//!
//! A kernel, a product and a collective each give their operands by one method, which stands beside their fields. What
//! else must know them (the shell's ordering and overlap rules, a trace, a simulated vendor) asks that method.

use crate::RawSlice;

/// What work does to an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads it.
    Read,
    /// Overwrites it; what it held before is not read.
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
    /// Where it lies.
    pub slice: RawSlice,
    /// What is done to it.
    pub access: Access,
    /// Whether a written operand may be the very slice of one that is read. In any other way it overlaps nothing.
    pub in_place: bool,
}

impl Operand {
    /// Bytes that the work moves here: those of an operand that is read and written count twice.
    pub fn moved_bytes(&self) -> usize {
        let times = usize::from(self.access.reads()) + usize::from(self.access.writes());
        times * self.slice.bytes()
    }
}

/// What the work does with a field, whatever slice that holds.
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

    /// Of `beta * old + new`: with 0 the old values are not read.
    pub(crate) fn scaled_by(beta: f64) -> Role {
        if beta == 0.0 { WRITE } else { UPDATE }
    }

    /// The same, where the result may take the place of an input.
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

/// A field that holds operands: one, perhaps one, or several.
pub(crate) trait Slices {
    fn each(&self, visit: &mut dyn FnMut(RawSlice));
}

impl Slices for RawSlice {
    fn each(&self, visit: &mut dyn FnMut(RawSlice)) {
        visit(*self);
    }
}

impl Slices for Option<RawSlice> {
    fn each(&self, visit: &mut dyn FnMut(RawSlice)) {
        self.iter().copied().for_each(visit);
    }
}

impl Slices for Vec<RawSlice> {
    fn each(&self, visit: &mut dyn FnMut(RawSlice)) {
        self.iter().copied().for_each(visit);
    }
}

/// Gives a structure its operands: `Name { field: ROLE, ..; other fields }`. A field that is left out does not compile.
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
