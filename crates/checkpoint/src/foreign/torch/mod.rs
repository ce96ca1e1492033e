//! What PyTorch writes: its distributed checkpoints, and the archives of `torch.save`.
//!
//! Read in this order: [`pickle`] (objects of Python as data, none of which is made), [`archive`] (a file of `torch.save`, or one within
//! another file), [`distributed`] (tensors cut into chunks that many ranks have written).

mod archive;
mod distributed;
mod pickle;

pub use archive::saved_attributes;
pub use distributed::Distributed;
