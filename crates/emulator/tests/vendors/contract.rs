//! The contract suite for each vendor.

use crate::{CUDA, CUDA_STAGED, ROCM, ROCM_STAGED, Way, options};
use hal::SumOrder;
use testkit::contract;

macro_rules! suite {
    ($vendor:ident, $way:expr, $staged:expr) => {
        mod $vendor {
            use super::*;

            #[test]
            fn memory_is_apart_aligned_and_used_again() {
                check($way, contract::memory::check);
            }

            #[test]
            fn matmuls_of_all_transposes_and_types() {
                check($way, contract::matmuls::check);
            }

            #[test]
            fn elementwise_kernels_of_all_types() {
                check($way, contract::kernels::check);
            }

            #[test]
            fn norms_attention_loss_and_updates() {
                check($way, contract::layers::check);
            }

            #[test]
            fn work_is_ordered_in_and_between_streams() {
                check($way, contract::order::check);
            }

            #[test]
            fn collectives_between_ranks() {
                check_ranks($way);
            }

            #[test]
            fn staged_collectives_between_ranks() {
                check_ranks($staged);
            }
        }
    };
}

suite!(cuda, CUDA, CUDA_STAGED);
suite!(rocm, ROCM, ROCM_STAGED);

#[test]
fn memory_up_to_a_limit() {
    const LIMIT: usize = 8 << 20;
    fn limited(ordinal: usize) -> gpu::Options {
        let mut options = options(ordinal, false, SumOrder::Device);
        options.settings.memory_limit = Some(LIMIT);
        options
    }
    let ways = [
        Way {
            open: |ordinal| ::cuda::open(limited(ordinal)),
            ..CUDA
        },
        Way {
            open: |ordinal| ::rocm::open(limited(ordinal)),
            ..ROCM
        },
    ];
    for way in ways {
        if way.is_ready("memory_up_to_a_limit") {
            contract::memory::check_limit(way.open, LIMIT);
        }
    }
}

fn check(way: Way, subject: fn(contract::Open)) {
    if way.is_ready("the contract") {
        subject(way.open);
    }
}

// A machine with one device still shows that a group of one works.
fn check_ranks(way: Way) {
    for ranks in contract::collectives::RANKS {
        if way.is_ready("collectives") && way.has_devices(ranks) {
            contract::collectives::check(way.open, ranks);
        }
    }
}
