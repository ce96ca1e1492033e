//! The tensors that work takes, and how it accesses each, as listed by the work's own operands.
//!
//! A tensor becomes an address only here, so a kernel cannot name memory that the shell does not order and
//! keep.

use super::Tensor;
use crate::overlap;
use hal::{Access, Error, Operand, RawBuffer, RawSlice, Result};

/// The tensors of one piece of work, in the order in which they were taken.
#[derive(Default)]
pub(crate) struct Arguments<'a> {
    // Almost all kernels have few arguments, so launching them allocates nothing.
    few: [Option<Argument<'a>>; FEW],
    num_few: usize,
    more: Vec<Argument<'a>>,
}

const FEW: usize = 10;

#[derive(Clone, Copy)]
struct Argument<'a> {
    tensor: &'a Tensor,
    slice: RawSlice,
    // `None` until the work has named it.
    access: Option<Access>,
    in_place: bool,
}

impl<'a> Arguments<'a> {
    /// Tensors of work that is not a kernel, and how it accesses each.
    pub(crate) fn used<const N: usize>(tensors: [(&'a Tensor, Access); N]) -> Arguments<'a> {
        let mut all = Arguments::default();
        for (tensor, access) in tensors {
            let slice = tensor.raw();
            all.push(tensor, slice, Some(access));
        }
        all
    }

    /// Takes a tensor as an operand.
    pub(crate) fn take(&mut self, tensor: &'a Tensor) -> RawSlice {
        self.push(tensor, tensor.raw(), None)
    }

    /// Takes a tensor, if there is one.
    pub(crate) fn take_some(&mut self, tensor: Option<&'a Tensor>) -> Option<RawSlice> {
        tensor.map(|tensor| self.take(tensor))
    }

    /// Takes `len` elements of a tensor, from element `start` on.
    pub(crate) fn take_part(&mut self, tensor: &'a Tensor, start: usize, len: usize) -> RawSlice {
        self.push(tensor, tensor.raw().part(start, len), None)
    }

    fn push(&mut self, tensor: &'a Tensor, slice: RawSlice, access: Option<Access>) -> RawSlice {
        let argument = Argument {
            tensor,
            slice,
            access,
            in_place: false,
        };
        match self.few.get_mut(self.num_few) {
            Some(free) => {
                *free = Some(argument);
                self.num_few += 1;
            }
            None => self.more.push(argument),
        }
        slice
    }

    /// Learns from the work's own operands how it accesses each tensor.
    ///
    /// # Panics
    /// If the operands are not the tensors that were taken: a bug of the operation.
    pub(crate) fn name(&mut self, work: &str, operands: impl FnOnce(&mut dyn FnMut(Operand))) {
        let mut next = 0;
        operands(&mut |operand| {
            let argument = self.find(next, &operand.slice);
            let argument = argument.unwrap_or_else(|| {
                panic!("a bug: {work} names {operand:?}, which it was not given")
            });
            argument.access = Some(match argument.access {
                None => operand.access,
                Some(access) if access == operand.access => access,
                Some(_) => Access::ReadWrite,
            });
            argument.in_place |= operand.in_place;
            next += 1;
        });
        let unnamed = self.all().any(|argument| argument.access.is_none());
        assert!(
            !unnamed,
            "a bug: {work} was given a tensor that it does not name"
        );
    }

    // Operations take tensors in the order of operands, so a search is rarely needed.
    fn find(&mut self, index: usize, slice: &RawSlice) -> Option<&mut Argument<'a>> {
        let is_there = |argument: &Argument<'a>| argument.slice == *slice;
        let expected = match index.checked_sub(self.num_few) {
            None => self.few[index].as_ref(),
            Some(index) => self.more.get(index),
        };
        if !expected.is_some_and(is_there) {
            let few = self.few[..self.num_few].iter_mut().flatten();
            return few
                .chain(&mut self.more)
                .find(|argument| is_there(argument));
        }
        match index.checked_sub(self.num_few) {
            None => self.few[index].as_mut(),
            Some(index) => self.more.get_mut(index),
        }
    }

    #[inline]
    fn all(&self) -> impl Iterator<Item = &Argument<'a>> {
        self.few[..self.num_few].iter().flatten().chain(&self.more)
    }

    /// The tensors, and how the work accesses them.
    #[inline]
    pub(crate) fn uses(&self) -> impl Iterator<Item = (&'a Tensor, Access)> {
        self.all().map(|argument| {
            (
                argument.tensor,
                argument.access.unwrap_or(Access::ReadWrite),
            )
        })
    }

    /// The memory of the first two operands.
    pub(crate) fn buffers(&self) -> [RawBuffer; 2] {
        let mut all = self.all().map(|argument| argument.slice.buffer());
        [(); 2].map(|()| all.next().expect("a bug: work on fewer than two tensors"))
    }

    /// The device of the first tensor.
    pub(crate) fn device(&self) -> Option<&'a crate::Device> {
        self.all().next().map(|argument| argument.tensor.device())
    }

    /// Bytes that the work writes.
    pub(crate) fn written_bytes(&self) -> usize {
        let written = self.all().filter(|argument| argument.writes());
        written.map(|argument| argument.slice.bytes()).sum()
    }

    /// Refuses a written operand that overlaps another one, unless it replaces that one as the work allows.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the two.
    pub(crate) fn check_overlap(&self, work: &str) -> Result<()> {
        if !self.more.is_empty() {
            let pieces = self
                .all()
                .map(|argument| (argument.slice, argument.writes()));
            return overlap::disjoint(work, &mut pieces.collect());
        }
        for (index, written) in self
            .all()
            .enumerate()
            .filter(|(_, argument)| argument.writes())
        {
            let others = self.all().enumerate().filter(|(other, _)| *other != index);
            let clash = others
                .map(|(_, other)| other)
                .find(|other| written.clashes(other));
            if let Some(other) = clash {
                let found = format!("{:?} overlapping {:?}", written.tensor, other.tensor);
                return Err(Error::invalid(work, found, "a result of its own"));
            }
        }
        Ok(())
    }
}

impl Argument<'_> {
    fn writes(&self) -> bool {
        self.access.is_none_or(Access::writes)
    }

    fn clashes(&self, other: &Argument<'_>) -> bool {
        let replaces = self.in_place && !other.writes() && self.slice == other.slice;
        self.slice.overlaps(&other.slice) && !replaces
    }
}
