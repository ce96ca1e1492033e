//! Outputs of each architecture by its definition, in f64 and plain loops, from another program's own tensors.
//!
//! One tensor is in memory at a time. `loops` has the operations and `rotary` the angles of rotary positions; `gpt2`, `llama`,
//! `neox` and `megatron` have the order of the operations.

mod gpt2;
mod llama;
mod loops;
mod megatron;
mod neox;
mod rotary;

pub(super) use gpt2::gpt2;
pub(super) use llama::llama;
pub(super) use megatron::megatron;
pub(super) use neox::neox;

use grid::IndexBox;
use train::{Result, checkpoint::foreign::PlainFolder};

/// The tensors under a prefix.
struct Source<'a> {
    tensors: &'a PlainFolder,
    prefix: String,
}

impl Source<'_> {
    fn read(&self, name: &str) -> Result<Vec<f64>> {
        self.read_whole(&format!("{}{name}", self.prefix))
    }

    fn read_whole(&self, name: &str) -> Result<Vec<f64>> {
        let shape = self.tensors.info(name)?.global_shape;
        let index = IndexBox::full(&shape);
        Ok(self.tensors.read_f64(name, &shape, &index)?)
    }

    // Rows of a table.
    fn rows(&self, name: &str, rows: &[u32]) -> Result<Vec<f64>> {
        let name = format!("{}{name}", self.prefix);
        let shape = self.tensors.info(&name)?.global_shape;
        let mut out = Vec::new();
        for row in rows {
            let index = IndexBox {
                start: vec![*row as usize, 0],
                shape: vec![1, shape[1]],
            };
            out.extend(self.tensors.read_f64(&name, &shape, &index)?);
        }
        Ok(out)
    }
}
