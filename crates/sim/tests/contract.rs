//! The contract suite: shapes, order and errors, as on every vendor. There are no numbers to compare.

mod support;

fn open(ordinal: usize) -> hal::Result<std::sync::Arc<dyn hal::Device>> {
    support::device(&support::perlmutter(), 8, ordinal, None).map(|(device, _)| device)
}

testkit::contract_tests!(open);
