//! The contract suite.

use crate::{open, open_staged, ready};
// The suite alone: the rest of testkit would bring the whole trainer into this build.
#[path = "../../../testkit/src/contract/mod.rs"]
#[allow(dead_code, reason = "some of it is for other users of the suite")]
mod contract;

#[test]
fn memory_is_apart_aligned_and_used_again() {
    if ready("memory") {
        contract::memory::check(open);
    }
}

#[test]
fn products_of_all_transposes_and_types() {
    if ready("products") {
        contract::products::check(open);
    }
}

#[test]
fn elementwise_kernels_of_all_types() {
    if ready("kernels") {
        contract::kernels::check(open);
    }
}

#[test]
fn norms_attention_loss_and_updates() {
    if ready("layers") {
        contract::layers::check(open);
    }
}

#[test]
fn collectives_between_ranks() {
    if ready("collectives") {
        contract::collectives::check(open);
    }
}

#[test]
fn staged_collectives_between_ranks() {
    if ready("staged collectives") {
        contract::collectives::check(open_staged);
    }
}

#[test]
fn work_is_ordered_in_and_between_streams() {
    if ready("order") {
        contract::order::check(open);
    }
}
