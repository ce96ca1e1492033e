//! Names of device functions, built without an allocation.

use hal::DType;
use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
};

/// The name of a device function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; LONGEST],
    len: usize,
}

const LONGEST: usize = 72;

impl Name {
    /// A name that begins with `text`.
    pub fn of(text: &str) -> Name {
        let empty = Name {
            bytes: [0; LONGEST],
            len: 0,
        };
        empty.and(text)
    }

    /// The name with another part appended.
    ///
    /// # Panics
    /// If the name exceeds 72 bytes, which no function of ours does.
    pub fn and(mut self, part: impl Part) -> Name {
        part.write(&mut |text| {
            let end = self.len + text.len();
            assert!(
                end <= LONGEST,
                "a bug: {self:?}{text} is too long for a name"
            );
            self.bytes[self.len..end].copy_from_slice(text.as_bytes());
            self.len = end;
        });
        self
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).expect("a bug: a name is made of strings")
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.bytes[..self.len]);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// A part of a name.
pub trait Part {
    /// Passes its text on, piece by piece.
    fn write(&self, out: &mut dyn FnMut(&str));
}

impl Part for &str {
    fn write(&self, out: &mut dyn FnMut(&str)) {
        out(self);
    }
}

impl Part for DType {
    fn write(&self, out: &mut dyn FnMut(&str)) {
        out(self.name());
    }
}

impl Part for usize {
    fn write(&self, out: &mut dyn FnMut(&str)) {
        const DIGITS: &str = "0123456789";
        if *self >= 10 {
            (self / 10).write(out);
        }
        let digit = self % 10;
        out(&DIGITS[digit..=digit]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_put_together() {
        let name = Name::of("cast_").and(DType::Bf16).and("_").and(1024usize);
        assert_eq!(&*name, "cast_bf16_1024");
        assert!(name == Name::of("cast_bf16_1024") && name != Name::of("cast_bf16_102"));
        assert_eq!(&*Name::of("").and(0usize), "0");
    }
}
