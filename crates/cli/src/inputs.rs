//! A configuration that is checked completely, with its data open.

use crate::{
    corpus::{self, Opened},
    failure::{Failure, Outcome},
    output,
    ranks::Team,
};
use train::Config;

/// A configuration that is checked before its data is open. A vocabulary that is left to the tokenizer is then `assumed`.
pub(crate) fn before_data(config: &Config, assumed: usize) -> Outcome<Config> {
    let mut early = config.clone();
    if config.model.text().is_some_and(|text| text.vocabulary == 0) {
        let known = config.model.with_vocabulary(assumed);
        early.model = known.unwrap_or(early.model);
    }
    early.check()?;
    Ok(early)
}

/// Checks a configuration whose grid is chosen, and opens its data, from which it takes the vocabulary if it has none.
///
/// Refuses invalid input before the data is read, except where validity depends on the data. `is_resumed` says whether the
/// configuration comes from a checkpoint.
pub(crate) fn settled(mut config: Config, is_resumed: bool) -> Outcome<(Config, Opened)> {
    let early = before_data(&config, 1 << 32)?;
    Team::of(&early)?.check_number()?;
    let here = std::env::current_dir()
        .map_err(|error| Failure::run(format!("current folder: {error}")))?;
    // The run may be resumed from another folder.
    if let Some(path) = &mut config.device.matmul_choices {
        *path = here.join(&path);
        if is_resumed && !path.exists() {
            output::note(&format!(
                "device.matmul_choices: {} does not exist; the first step times every matmul anew, and the losses may differ \
                 in the last digits from those of a run that was not resumed",
                path.display()
            ));
        }
    }
    let source = corpus::source(&mut config, is_resumed, &here)?;
    let opened = corpus::open(&mut config, &source)?;
    config.check()?;
    Ok((config, opened))
}
