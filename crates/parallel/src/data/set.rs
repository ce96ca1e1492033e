//! All parameters of a rank, and the moment at which a bucket's gradients are final.

use super::bucket::Bucket;
use crate::{Context, Parameter};
use ::tensor::{DType, Error, Result};
use grid::Axis;
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    fmt,
    rc::Rc,
};

/// What the buffers are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetOptions {
    /// Type of values and activations.
    pub dtype: DType,
    /// Whether there are gradients.
    pub trains: bool,
    /// State tensors of the optimiser for each weight.
    pub num_states: usize,
    /// Whether replicas along Data share the optimiser's state (ZeRO stage 1).
    pub sharded: bool,
}

impl SetOptions {
    /// Values only, to run a model forward.
    pub const fn inference(dtype: DType) -> SetOptions {
        SetOptions {
            dtype,
            trains: false,
            num_states: 0,
            sharded: false,
        }
    }
}

/// A parameter that two pipeline stages hold a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tied {
    /// Its name.
    pub name: String,
    /// World ranks that hold it, first the one whose copy counts in norms and checkpoints.
    pub members: Vec<usize>,
}

/// The parameters of a rank with their memory. Cloning clones the handle.
#[derive(Clone)]
pub struct ParameterSet(pub(super) Rc<Inner>);

pub(super) struct Inner {
    pub(super) context: Context,
    pub(super) parameters: Vec<Parameter>,
    pub(super) buckets: Vec<Bucket>,
    pub(super) options: SetOptions,
    bucket_of: HashMap<String, usize>,
    progress: RefCell<Progress>,
}

// How far the gradients of the current step have come.
#[derive(Default)]
struct Progress {
    // Addends that each parameter gets in a step, learnt from the first one.
    expected: Option<BTreeMap<String, u64>>,
    reduced: Vec<bool>,
}

impl ParameterSet {
    /// Allocates values, gradients and state for `parameters`, and sets the initial values.
    ///
    /// # Errors
    /// [`Error::Invalid`] for two parameters of one name; [`Error::OutOfMemory`].
    pub fn allocate(
        context: &Context,
        parameters: Vec<Parameter>,
        tied: &[Tied],
        options: SetOptions,
    ) -> Result<ParameterSet> {
        check_names(&parameters)?;
        let sum_bytes = options.dtype.accumulator().bytes();
        let mut buckets = Vec::new();
        for (tie, parameters) in classes(&parameters, tied) {
            for group in split(parameters, context.settings().bucket_bytes / sum_bytes) {
                buckets.push(Bucket::allocate(context, group, tie.clone(), &options)?);
            }
        }
        let names = |(index, bucket): (usize, &Bucket)| -> Vec<(String, usize)> {
            bucket
                .parameters
                .iter()
                .map(|parameter| (parameter.name().to_owned(), index))
                .collect()
        };
        let bucket_of = buckets.iter().enumerate().flat_map(names).collect();
        let progress = Progress {
            expected: None,
            reduced: vec![false; buckets.len()],
        };
        let progress = RefCell::new(progress);
        let set = ParameterSet(Rc::new(Inner {
            context: context.clone(),
            parameters,
            buckets,
            options,
            bucket_of,
            progress,
        }));
        set.initialise()?;
        Ok(set)
    }

    /// The parameters, in the order of their declaration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.0.parameters
    }

    /// What the buffers are for.
    pub fn options(&self) -> &SetOptions {
        &self.0.options
    }

    /// Whether this rank's copy of a parameter is the one that counts: of two stages that share it, the first's.
    pub fn is_first_copy(&self, parameter: &Parameter) -> bool {
        let bucket = self
            .0
            .bucket_of
            .get(parameter.name())
            .map(|&index| &self.0.buckets[index]);
        let members = bucket.and_then(|bucket| bucket.tied.as_ref());
        members.is_none_or(|members| members[0] == self.0.context.world().rank())
    }

    /// Starts a step: gradients are zero, and each bucket is reduced as soon as its gradients are final.
    ///
    /// # Errors
    /// [`Error::Vendor`].
    pub fn begin_step(&self) -> Result<()> {
        for bucket in &self.0.buckets {
            bucket
                .gradients
                .as_ref()
                .map_or(Ok(()), |gradients| gradients.fill(0.0))?;
        }
        self.0
            .parameters
            .iter()
            .for_each(|parameter| parameter.contributions().set(0));
        self.0.progress.borrow_mut().reduced.fill(false);
        let overlaps =
            self.0.context.settings().overlap.data && self.0.progress.borrow().expected.is_some();
        let set = Rc::downgrade(&self.0);
        let listener = move |_: &Context, parameter: &Parameter| match set.upgrade() {
            Some(inner) => ParameterSet(inner).note(parameter),
            None => Ok(()),
        };
        self.0
            .context
            .listen(overlaps.then(|| Rc::new(listener) as crate::context::Listener));
        Ok(())
    }

    /// Ends the backward passes of a step: reduces what is not yet reduced, in the order of buckets.
    ///
    /// # Errors
    /// Those of the collectives.
    pub fn end_backward(&self) -> Result<()> {
        crate::tensor::scatter::settle(&self.0.context, 0)?;
        self.0.context.listen(None);
        for index in 0..self.0.buckets.len() {
            self.reduce(index)?;
        }
        let counted =
            |parameter: &Parameter| (parameter.name().to_owned(), parameter.contributions().get());
        let counts: BTreeMap<_, _> = self.0.parameters.iter().map(counted).collect();
        let mut progress = self.0.progress.borrow_mut();
        if let Some(expected) = &progress.expected
            && expected != &counts
            && self.0.context.settings().overlap.data
        {
            let found = "a parameter used more or less often than in the first step";
            let needed = "the same uses in every step, or the overlap of Data switched off";
            return Err(Error::invalid("reduction of gradients", found, needed));
        }
        progress.expected = Some(counts);
        Ok(())
    }

    // Reduces a bucket once the last addend of its last parameter is there.
    fn note(&self, parameter: &Parameter) -> Result<()> {
        let Some(&index) = self.0.bucket_of.get(parameter.name()) else {
            return Ok(());
        };
        let is_final = |parameter: &Parameter| {
            let progress = self.0.progress.borrow();
            let expected = progress
                .expected
                .as_ref()
                .and_then(|expected| expected.get(parameter.name()));
            expected.is_some_and(|&expected| parameter.contributions().get() >= expected)
        };
        match self.may_be_early(index) && self.0.buckets[index].parameters.iter().all(is_final) {
            true => self.reduce(index),
            false => Ok(()),
        }
    }

    // To compare calls the host waits for the other stage, which may be waiting for what this one's backward sends later.
    fn may_be_early(&self, index: usize) -> bool {
        self.0.buckets[index].tied.is_none() || !self.0.context.settings().checked
    }

    fn reduce(&self, index: usize) -> Result<()> {
        if std::mem::replace(&mut self.0.progress.borrow_mut().reduced[index], true) {
            return Ok(());
        }
        let context = &self.0.context;
        let bucket = &self.0.buckets[index];
        let replicated =
            bucket.sum_axes.iter().any(|&axis| context.degree(axis) > 1) || bucket.tied.is_some();
        if !replicated {
            return Ok(());
        }
        let behind = context.settings().overlap.data;
        let stream = if behind {
            context.stream("reduce gradients")?
        } else {
            context.device().compute()
        };
        bucket.reduce(context, &stream)
    }
}

fn check_names(parameters: &[Parameter]) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    match parameters
        .iter()
        .find(|parameter| !seen.insert(parameter.name()))
    {
        None => Ok(()),
        Some(twice) => Err(Error::invalid(
            "parameters",
            format!("two named {}", twice.name()),
            "one of each name",
        )),
    }
}

type Class = (Option<Vec<usize>>, Vec<Parameter>);

// Parameters that are reduced over the same ranks, last declared first: the order in which backward ends.
fn classes(parameters: &[Parameter], tied: &[Tied]) -> Vec<Class> {
    let mut classes: Vec<(Vec<Axis>, Class)> = Vec::new();
    for parameter in parameters.iter().rev() {
        let tie = tied
            .iter()
            .find(|tie| tie.name == parameter.name())
            .map(|tie| tie.members.clone());
        let axes = parameter.sum_axes();
        match classes
            .iter_mut()
            .find(|(a, (t, _))| *a == axes && *t == tie)
        {
            Some((_, (_, list))) => list.push(parameter.clone()),
            None => classes.push((axes, (tie, vec![parameter.clone()]))),
        }
    }
    classes.into_iter().map(|(_, class)| class).collect()
}

// Runs of parameters of at most `limit` elements, and of at least one parameter.
fn split(parameters: Vec<Parameter>, limit: usize) -> Vec<Vec<Parameter>> {
    let mut groups: Vec<Vec<Parameter>> = Vec::new();
    let mut filled = 0;
    for parameter in parameters {
        let count = parameter.num_elements();
        if groups.is_empty() || filled + count > limit {
            groups.push(Vec::new());
            filled = 0;
        }
        filled += count;
        groups.last_mut().expect("pushed above").push(parameter);
    }
    groups
}

impl fmt::Debug for ParameterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ParameterSet({} parameters in {} buckets)",
            self.0.parameters.len(),
            self.0.buckets.len()
        )
    }
}
