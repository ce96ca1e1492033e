//! The structs that device functions take, and their memory layout.
//!
//! Each has the fields of the C++ structure of the same name, in the same order. A test compiles a small program
//! against the C++ headers and compares sizes and offsets with those listed here.

use super::{
    attention_join, attention_paged, attention_params, coded, columns, documents, dropout,
    elementwise, embedding, exact_squares, factored, gemm, layout, lines, loss, muon, norm,
    norm_full, optimiser, pages, quantised, quantised_matmul, rope, rows, squares, transpose,
};

/// Size of a struct and offsets of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name, as in C++.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: usize,
    /// Name and offset in bytes of every field.
    pub fields: &'static [(&'static str, usize)],
}

/// Declares structs that device functions take, with the [`Layout`] of each.
macro_rules! params {
    ($($(#[$attribute:meta])* struct $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
        pub(super) struct $name {
            $(pub(super) $field: $type,)*
        }

        impl $name {
            pub(super) const LAYOUT: $crate::lower::layouts::Layout = $crate::lower::layouts::Layout {
                name: stringify!($name),
                bytes: size_of::<$name>(),
                fields: &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*],
            };
        }
    )*};
}
pub(super) use params;

/// The layouts of all of them.
pub fn all() -> Vec<Layout> {
    let families: [&[Layout]; 26] = [
        elementwise::LAYOUTS,
        columns::LAYOUTS,
        dropout::LAYOUTS,
        norm::LAYOUTS,
        norm_full::LAYOUTS,
        attention_params::LAYOUTS,
        attention_join::LAYOUTS,
        attention_paged::LAYOUTS,
        pages::LAYOUTS,
        loss::LAYOUTS,
        embedding::LAYOUTS,
        documents::LAYOUTS,
        rope::LAYOUTS,
        rows::LAYOUTS,
        layout::LAYOUTS,
        squares::LAYOUTS,
        exact_squares::LAYOUTS,
        gemm::LAYOUTS,
        coded::LAYOUTS,
        factored::LAYOUTS,
        lines::LAYOUTS,
        muon::LAYOUTS,
        optimiser::LAYOUTS,
        quantised::LAYOUTS,
        quantised_matmul::LAYOUTS,
        transpose::LAYOUTS,
    ];
    families.concat()
}
