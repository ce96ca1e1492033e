//! The contract suite: shapes, order and refusals, as on every vendor; where numbers would be compared, there are none.

mod support;

fn open(ordinal: usize) -> hal::Result<std::sync::Arc<dyn hal::Device>> {
    support::device(&support::perlmutter(), 8, ordinal, None).map(|(device, _)| device)
}

testkit::contract_tests!(open);
