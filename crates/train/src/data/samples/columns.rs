//! The columns of a batch of samples.

/// The target of a token that does not count.
pub(in crate::data) const NO_TARGET: u32 = u32::MAX;

/// The columns of rows that are being filled.
#[derive(Default)]
pub(in crate::data) struct Columns {
    pub(in crate::data) inputs: Vec<u32>,
    pub(in crate::data) targets: Vec<u32>,
    pub(in crate::data) documents: Vec<u32>,
    pub(in crate::data) places: Vec<u32>,
}

impl Columns {
    /// Adds a sample.
    pub(in crate::data) fn push(&mut self, (tokens, counts): (&[u32], &[bool]), context: usize) {
        let start = (self.inputs.len() % context) as u32;
        let inputs = &tokens[..tokens.len() - 1];
        self.inputs.extend_from_slice(inputs);
        let targets = tokens.iter().zip(counts).skip(1);
        self.targets
            .extend(targets.map(|(token, counts)| match counts {
                true => *token,
                false => NO_TARGET,
            }));
        self.documents.extend(inputs.iter().map(|_| start));
        self.places.extend((0..).take(inputs.len()));
    }

    /// Adds padding up to this length. Each of its tokens is a sample of its own, so that none attends far.
    pub(in crate::data) fn pad(&mut self, length: usize, token: u32, context: usize) {
        let places = self.inputs.len()..length;
        self.documents
            .extend(places.map(|place| (place % context) as u32));
        self.inputs.resize(length, token);
        self.targets.resize(length, NO_TARGET);
        self.places.resize(length, 0);
    }
}
