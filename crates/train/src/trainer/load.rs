//! Loads parameters and optimiser state from checkpoints and files of weights.

use super::{
    Trainer, Weights, disk_work,
    disk_work::Patience,
    frozen::Kept,
    stored::{is_previous, parts, previous_prefix, stored},
};
use crate::{Error, Mismatch, Result, checkpoint::Reader};
use bootstrap::World;
use grid::IndexBox;
use parallel::{
    Parameter,
    data::{ParameterSet, Part, SetOptions},
    parameter::column_norms,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use tensor::DType;

impl Trainer {
    /// Loads the weights of a checkpoint, of a file of full tensors (such as an exported checkpoint), or of another program's
    /// folder. `others` are additional names that the file may have. Collective; the disk may be slow.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a parameter that the file lacks or holds in another shape, and a tensor that the model
    /// lacks; [`Error::Checkpoint`] for elements that are not floats, and if the file cannot be read; [`Error::Peer`] on the
    /// other ranks.
    pub fn load_weights(&mut self, weights: &dyn Weights, others: &[&str]) -> Result<()> {
        check_weights(self.pipeline.declared(), weights, others)?;
        self.pipeline.forget_ahead();
        write_weights(self.context.world(), self.parameters(), weights)?;
        Ok(self.pipeline.equal_versions()?)
    }

    /// Resumes from a checkpoint, or from the newest one in a folder: weights, the optimiser's state, and the number of
    /// the next step. Any grid may have written it. Collective; the files may be read more slowly than the timeout.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing or damaged; [`Error::Mismatch`] when its tensors are not those of this
    /// model and optimiser, with the first name that differs, when it holds other versions of the weights than the schedule
    /// needs on these stages, and when another program wrote it; [`Error::Peer`] when another rank finds such a fault.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let (path, world) = (path.as_ref(), self.context.world());
        let reader = disk_work::all(world, || Ok(Reader::open(path)?))?;
        verify(world, &reader)?;
        let stored = stored(&reader)?;
        let own = self.optimiser.name();
        if let Some(name) = stored.optimiser.as_deref().filter(|name| *name != own) {
            let mismatch = Mismatch::Optimiser {
                found: name.to_owned(),
                needed: own.to_owned(),
            };
            return Err(Error::mismatch(reader.path(), mismatch));
        }
        if stored.optimiser.is_none() && reader.names().all(|name| !name.starts_with("state")) {
            let what = "state of an optimiser";
            let reason =
                "it holds weights alone, as after an import; --init-from begins a run with them";
            let (path, reason) = (reader.path(), reason.to_owned());
            return Err(Error::mismatch(path, Mismatch::Foreign { what, reason }));
        }
        // A checkpoint of another schedule has the latest weights alone, from which all versions begin, as those of a new run do.
        let begins = !reader.names().any(is_previous);
        let late = |parameter: &Parameter| match begins {
            true => 0,
            false => self.pipeline.updates_late(parameter),
        };
        let declared = self.pipeline.declared();
        if self.options.schedule.delays_gradients() {
            check_versions(declared, &reader, &late)?;
        }
        let most = declared.iter().map(late).max().unwrap_or(0);
        let options = SetOptions {
            versions: 1 + most,
            ..self.parameters().options().clone()
        };
        let parts = parts(&options);
        check_names(declared, &reader, (&options, &parts), &late)?;
        self.pipeline.forget_ahead();
        let is_exact = fill(world, &reader, self.parameters(), &parts)?;
        if begins {
            self.pipeline.equal_versions()?;
        }
        self.num_updates = stored.num_updates;
        self.loss_scale = self.loss_scale.resumed(stored.loss_scale);
        self.next_step = reader.step();
        self.frozen_file = match is_exact {
            true => Kept::found(self, &reader),
            false => None,
        };
        Ok(())
    }
}

/// Checks that weights are those of these parameters, each with its shape; `others` are names that they may have besides.
///
/// # Errors
/// [`Error::Mismatch`] with the first name that only one side has, or the two shapes.
pub(crate) fn check_weights(
    parameters: &[Parameter],
    weights: &dyn Weights,
    others: &[&str],
) -> Result<()> {
    let refuse = |mismatch| Err(Error::mismatch(weights.path(), mismatch));
    let mut needed = BTreeSet::new();
    for parameter in parameters
        .iter()
        .filter(|parameter| is_expected(parameter, weights))
    {
        let name = parameter.name().to_owned();
        match weights.shape(&name) {
            None => return refuse(Mismatch::Missing { name }),
            Some(found) if found != parameter.global_shape() => {
                return refuse(Mismatch::Shape {
                    found,
                    needed: parameter.global_shape().to_vec(),
                    name,
                });
            }
            Some(_) => needed.insert(name),
        };
    }
    let names = weights.names().into_iter();
    let mut extra = names.filter(|name| !needed.contains(name) && !others.contains(&&**name));
    match extra.next() {
        None => Ok(()),
        Some(name) => {
            let others = extra.count();
            refuse(Mismatch::Extra { name, others })
        }
    }
}

// Adapters begin anew where the weights have none. Lengths that would begin anew beside a product of the weights would change what
// the model computes.
fn is_expected(parameter: &Parameter, weights: &dyn Weights) -> bool {
    let has = |name: &str| weights.shape(name).is_some();
    let product = |weight: &Parameter| {
        let layer = weight.name().strip_suffix(".weight").unwrap_or_default();
        format!("{layer}.{}.weight", nn::ADAPTER_LAYERS[0])
    };
    !nn::is_of_adapter(parameter.name())
        || has(parameter.name())
        || parameter
            .norms_of()
            .is_some_and(|weight| has(&product(weight)))
}

// The norms of some columns of a weight, with which lengths begin.
fn norms(
    weights: &dyn Weights,
    (name, shape): (&str, &[usize]),
    columns: &IndexBox,
) -> Result<Vec<f64>> {
    let columns = columns.start[0]..columns.start[0] + columns.shape[0];
    column_norms(shape[0], columns, |index| weights.read(name, shape, index))
}

/// Sets the weights of a set of parameters. Those of adapters stay where there are none, but for lengths of columns, which become
/// those of the new weights. Collective; the disk may be slow.
///
/// # Errors
/// As [`fill`].
pub(crate) fn write_weights(
    world: &World,
    parameters: &ParameterSet,
    weights: &dyn Weights,
) -> Result<()> {
    let mut kept = BTreeMap::new();
    parameters.read::<Error>(Part::Weights, |parameter, numbers| {
        if !is_expected(parameter, weights) {
            kept.insert(parameter.name().to_owned(), numbers);
        }
        Ok(())
    })?;
    let mut patience = Patience::new(world);
    let written = parameters.write(Part::Weights, |parameter| {
        let (name, shape) = (parameter.name(), parameter.global_shape());
        let index = parameter.index();
        match (kept.remove(name), parameter.norms_of()) {
            (Some(_), Some(weight)) => {
                let of = (weight.name(), weight.global_shape());
                patience.wait_for(|| norms(weights, of, index))
            }
            (Some(numbers), None) => Ok(numbers),
            (None, _) => patience.wait_for(|| weights.read(name, shape, index)),
        }
    });
    patience.finish(written)?;
    Ok(())
}

/// Compares every byte of a checkpoint with its checksums. Collective: ranks share the files, and wait as long as it takes.
///
/// # Errors
/// [`Error::Checkpoint`] on the rank that finds a damaged file, with an earlier checkpoint that is not, and [`Error::Peer`]
/// on the others; [`Error::Parallel`] if a rank does not answer.
pub fn verify(world: &World, reader: &Reader) -> Result<()> {
    disk_work::all(world, || {
        Ok(reader.verify_share(world.rank(), world.size())?)
    })
}

/// Sets parts of the parameters to what is stored under the prefix of each; returns whether frozen ones hold it as it is. Collective;
/// the disk may be slow.
///
/// # Errors
/// [`Error::Checkpoint`] for elements that cannot be read or are not floats, on the rank that reads them, and
/// [`Error::Peer`] on the others; [`Error::Parallel`] from the device, or if a rank does not answer.
pub(crate) fn fill(
    world: &World,
    reader: &Reader,
    parameters: &ParameterSet,
    parts: &[(String, Part)],
) -> Result<bool> {
    let mut patience = Patience::new(world);
    let filled = parts.iter().try_fold(true, |is_exact, (prefix, part)| {
        let is_written = parameters.write(*part, |parameter| {
            let name = format!("{prefix}{}", parameter.name());
            let options = parameters.options();
            let shape = options.shape_of(*part, parameter);
            let index = options.held(*part, parameter);
            let is_coded = options.dtype_of(*part, parameter) == DType::U8;
            patience.wait_for(|| match is_coded {
                true => Ok(each(reader.read(&name, &shape, &index)?)),
                false => Ok(reader.read_f64(&name, &shape, &index)?),
            })
        });
        Ok(is_exact & is_written?)
    });
    patience.finish(filled)
}

// How many earlier versions of a weight there are depends on the schedule, and may depend on the stage that holds it. All ranks
// compare those of the full model, so that all find the same.
fn check_versions(
    parameters: &[Parameter],
    reader: &Reader,
    late: &dyn Fn(&Parameter) -> usize,
) -> Result<()> {
    for parameter in parameters {
        let name = parameter.name();
        let is_there = |updates: &usize| {
            let full = format!("{}{name}", previous_prefix(*updates));
            reader.info(&full).is_ok()
        };
        let (found, needed) = ((1..).take_while(is_there).count(), late(parameter));
        if found != needed {
            let mismatch = Mismatch::Versions {
                name: name.to_owned(),
                found,
                needed,
            };
            return Err(Error::mismatch(reader.path(), mismatch));
        }
    }
    Ok(())
}

/// Checks that a checkpoint holds exactly the parts of these parameters in a set of these options, each with its shape, and of each
/// as many earlier versions as its gradients are `late` by updates.
///
/// # Errors
/// [`Error::Mismatch`] with the first name that only one side has, or the two shapes.
pub(crate) fn check_names(
    parameters: &[Parameter],
    reader: &Reader,
    (options, parts): (&SetOptions, &[(String, Part)]),
    late: &dyn Fn(&Parameter) -> usize,
) -> Result<()> {
    let mut needed = BTreeSet::new();
    for (prefix, part) in parts {
        let kept = |parameter: &&Parameter| match part {
            Part::State(index) => !parameter.is_frozen() && *index < options.states_of(parameter),
            Part::Scales(_) => options.is_coded(parameter),
            Part::RowMeans | Part::ColumnMeans => options.is_factored(parameter),
            Part::Previous(updates) => *updates <= late(parameter),
            _ => true,
        };
        for parameter in parameters.iter().filter(kept) {
            check_form(reader, prefix, (options, *part), parameter)?;
            needed.insert(format!("{prefix}{}", parameter.name()));
        }
    }
    let is_ours = |name: &&str| {
        parts.iter().any(|(prefix, _)| name.starts_with(prefix)) || name.starts_with("state")
    };
    let whole = parts.len() > 1 || parts.iter().all(|(_, part)| *part != Part::Weights);
    let compared = |name: &&str| is_ours(name) && (whole || name.starts_with("weights/"));
    let extra: Vec<&str> = reader
        .names()
        .filter(compared)
        .filter(|name| !needed.contains(*name))
        .collect();
    match extra.first() {
        None => Ok(()),
        Some(first) => {
            let (name, others) = ((*first).to_owned(), extra.len() - 1);
            Err(Error::mismatch(
                reader.path(),
                Mismatch::Extra { name, others },
            ))
        }
    }
}

fn each(codes: Vec<u8>) -> Vec<f64> {
    codes.into_iter().map(f64::from).collect()
}

fn check_form(
    reader: &Reader,
    prefix: &str,
    (options, part): (&SetOptions, Part),
    parameter: &Parameter,
) -> Result<()> {
    let name = format!("{prefix}{}", parameter.name());
    let Ok(info) = reader.info(&name) else {
        return Err(Error::mismatch(reader.path(), Mismatch::Missing { name }));
    };
    // A byte is read as a code, and never as a number of the wrong width.
    let is_coded = options.dtype_of(part, parameter) == DType::U8;
    if is_coded != (info.dtype == DType::U8) {
        let (found, needed) = (info.dtype, options.dtype_of(part, parameter));
        return Err(Error::mismatch(
            reader.path(),
            Mismatch::Dtype {
                name,
                found,
                needed,
            },
        ));
    }
    let shape = options.shape_of(part, parameter);
    match info.global_shape == shape {
        true => Ok(()),
        false => {
            let mismatch = Mismatch::Shape {
                found: info.global_shape.to_vec(),
                needed: shape,
                name,
            };
            Err(Error::mismatch(reader.path(), mismatch))
        }
    }
}
