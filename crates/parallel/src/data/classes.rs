//! Which parameters share a bucket.

use super::{SetOptions, Tied};
use crate::{Context, Parameter};
use grid::Axis;

/// Parameters that are reduced over the same ranks and have the same state.
pub(super) struct Class {
    /// World ranks of other pipeline stages that hold them too, including this rank.
    pub(super) tie: Option<Vec<usize>>,
    axes: Vec<Axis>,
    frozen: bool,
    whole: bool,
    coded: bool,
    quantised: bool,
    /// Segments of this stage that use each of them.
    pub(super) uses: usize,
    /// Each with its index.
    pub(super) parameters: Vec<(Parameter, usize)>,
}

/// Last declared first, which is the order in which backward finishes them.
pub(super) fn classes(
    context: &Context,
    parameters: &[Parameter],
    tied: &[Tied],
    options: &SetOptions,
) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for (index, parameter) in parameters.iter().enumerate().rev() {
        let tie = tied.iter().find(|tie| tie.parameter.is(parameter));
        let segments = || parameter.segments().len().max(1);
        let uses = tie.map_or_else(segments, |tie| tie.uses);
        let tie = tie.map(|tie| tie.members.clone());
        let (axes, frozen) = (parameter.sum_axes(context), parameter.is_frozen());
        let (whole, coded) = (options.is_whole(parameter), options.is_coded(parameter));
        let quantised = parameter.quantised().is_some();
        let alike = |class: &&mut Class| {
            // A shared table receives its last addend long after its neighbours, which would wait for it.
            let joins = !options.sharding.shards_gradients() || class.uses == uses;
            joins
                && (&class.axes, &class.tie) == (&axes, &tie)
                && (class.frozen, class.quantised) == (frozen, quantised)
                && (class.whole, class.coded) == (whole, coded)
        };
        match classes.iter_mut().find(alike) {
            Some(class) => class.parameters.push((parameter.clone(), index)),
            None => classes.push(Class {
                tie,
                axes,
                frozen,
                whole,
                coded,
                quantised,
                uses,
                parameters: vec![(parameter.clone(), index)],
            }),
        }
    }
    classes
}

/// Runs of parameters of at most `limit` elements, and of at least one parameter.
pub(super) fn split(
    parameters: Vec<(Parameter, usize)>,
    limit: usize,
) -> Vec<Vec<(Parameter, usize)>> {
    let mut groups: Vec<Vec<(Parameter, usize)>> = Vec::new();
    let mut filled = 0;
    for parameter in parameters {
        let count = parameter.0.num_elements();
        if groups.is_empty() || filled + count > limit {
            groups.push(Vec::new());
            filled = 0;
        }
        filled += count;
        groups.last_mut().expect("pushed above").push(parameter);
    }
    groups
}
