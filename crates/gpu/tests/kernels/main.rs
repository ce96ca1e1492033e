//! Every kernel, run on the host with warps of 32 and of 64, against the reference vendor.

mod attention;
mod coded;
mod documents;
mod elementwise;
mod embedding;
mod factored;
mod gemm;
mod layout;
mod layouts;
mod loss;
mod machine;
mod memory;
mod nodes;
mod norm;
mod norm_full;
mod optimiser;
mod pages;
mod quantised;
mod rows;
mod softmax;
mod transpose;
