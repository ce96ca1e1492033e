//! What settings say of windows in attention; and of the blocks of Gemma 3, most of which are local: only they have a window, and
//! their rotary positions a base of their own.

use super::{
    kinds::{Kind, Windows},
    rope,
};
use crate::GptConfig;
use serde_json::{Map, Value, json};
use train::{Result, foreign::Settings};

/// The words for the two kinds of blocks.
const KINDS: [&str; 2] = ["sliding_attention", "full_attention"];

/// The number of blocks from one that is not local to the next, where no setting says so.
const PATTERN: usize = 6;

/// The window where settings have no word of it.
const WINDOW: usize = 4096;

/// The first block of Qwen with a window, where no setting says so.
const FIRST_BLOCK: usize = 28;

/// The same in the words of this program.
pub(super) struct Local {
    /// [`GptConfig::sliding_window`].
    pub(super) window: usize,
    /// [`GptConfig::local_blocks`].
    pub(super) blocks: usize,
    /// [`GptConfig::local_rope_base`].
    pub(super) base: f64,
    /// [`GptConfig::score_size`].
    pub(super) score_size: usize,
}

impl Local {
    /// That of settings of a kind whose blocks are all alike.
    ///
    /// # Errors
    /// [`Error::Foreign`](train::Error::Foreign) for a window in some of the blocks, and for other kinds of attention.
    pub(super) fn alike(settings: &Settings) -> Result<Local> {
        Ok(Local {
            window: window_of_all(settings)?,
            blocks: 0,
            base: 10_000.0,
            score_size: 0,
        })
    }

    /// That of settings of Gemma 3, whose local blocks have this base.
    ///
    /// # Errors
    /// [`Error::Foreign`](train::Error::Foreign) for kinds of blocks that do not repeat, and for scores that are capped.
    pub(super) fn of(settings: &Settings, base: f64) -> Result<Local> {
        for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
            settings.only(key, &[Value::Null])?;
        }
        // What the library notes for itself, beside the list of kinds.
        settings.skip(&["_sliding_window_pattern"]);
        let pattern = settings.size_or_none("sliding_window_pattern")?;
        let pattern = pattern.unwrap_or(PATTERN).max(1);
        let (blocks, window) = (blocks(settings, pattern - 1)?, window(settings)?);
        Ok(Local {
            window: window.filter(|_| blocks > 0).unwrap_or(0),
            blocks,
            base,
            score_size: settings
                .size_or_none("query_pre_attn_scalar")?
                .unwrap_or(256),
        })
    }
}

// That of the settings, if the kind's count.
fn window(settings: &Settings) -> Result<Option<usize>> {
    let is_used = match Kind::of(settings).windows {
        Windows::Never => {
            settings.only("use_sliding_window", &[json!(false)])?;
            false
        }
        Windows::Sized => settings.flag_or("use_sliding_window", true)?,
        Windows::Flagged => settings.flag_or("use_sliding_window", false)?,
    };
    let stated = settings.size_or_none("sliding_window")?;
    let unstated = (!settings.states("sliding_window")).then_some(WINDOW);
    match stated.or(unstated).filter(|_| is_used) {
        Some(0) => Err(settings.refuse("found sliding_window = 0, needs null, or at least 1")),
        window => Ok(window),
    }
}

// 0, if no block has one.
fn window_of_all(settings: &Settings) -> Result<usize> {
    let (window, layers) = (window(settings)?, settings.size("num_hidden_layers")?);
    let first = settings.size_or_none("max_window_layers")?;
    let first = match Kind::of(settings).windows {
        Windows::Flagged => first.unwrap_or(FIRST_BLOCK),
        Windows::Never | Windows::Sized => 0,
    };
    let known = if window.is_some() {
        &KINDS
    } else {
        &KINDS[1..]
    };
    let kinds = listed(settings, known)?;
    let has_window = |block: &usize| match kinds.and_then(|kinds| kinds.get(*block)) {
        Some(kind) => kind == KINDS[0],
        None => *block >= first,
    };
    let Some(window) = window else {
        return Ok(0);
    };
    match (0..layers).filter(has_window).count() {
        0 => Ok(0),
        count if count == layers => Ok(window),
        count => Err(settings.refuse(format!(
            "found windows in {count} of {layers} blocks, needs them in all or in none"
        ))),
    }
}

// The kind of each block, if there is a list; all are among those that are known.
fn listed<'a>(settings: &'a Settings, known: &[&str]) -> Result<Option<&'a Vec<Value>>> {
    let kinds = settings.get("layer_types").and_then(Value::as_array);
    let is_known = |kind: &&Value| known.iter().any(|known| *kind == known);
    match kinds.into_iter().flatten().find(|kind| !is_known(kind)) {
        None => Ok(kinds),
        Some(kind) => Err(settings.refuse(format!(
            "found {kind} among layer_types, needs \"{}\"",
            known.join("\" or \"")
        ))),
    }
}

// The local blocks in front of each that is not, by the list of all kinds if that has one.
fn blocks(settings: &Settings, stated: usize) -> Result<usize> {
    let Some(kinds) = listed(settings, &KINDS)? else {
        return Ok(stated);
    };
    let is_local = |kind: &Value| kind == KINDS[0];
    let before = kinds.iter().take_while(|kind| is_local(kind)).count();
    let local = match before < kinds.len() {
        true => before,
        false => stated.max(before),
    };
    let repeats =
        |(block, kind): (usize, &Value)| is_local(kind) != (block + 1).is_multiple_of(local + 1);
    match kinds.iter().enumerate().all(repeats) {
        true => Ok(local),
        false => Err(settings.refuse(format!(
            "found layer_types that do not repeat, needs {local} of \"{}\" in front of each \"{}\"",
            KINDS[0], KINDS[1]
        ))),
    }
}

/// The settings of a model of this kind. One without windows has them as long as its context.
pub(super) fn written(kind: &Kind, config: &GptConfig) -> Map<String, Value> {
    let is_local = |block| match kind.is_gemma3() {
        true => config.is_local(block),
        false => config.window(block).is_some(),
    };
    let word = |block| KINDS[usize::from(!is_local(block))];
    let kinds: Vec<&str> = (0..config.layers).map(word).collect();
    let window = (config.sliding_window > 0).then_some(config.sliding_window);
    let keys = match kind.windows {
        _ if kind.is_gemma3() => json!({
            "hidden_activation": super::activation::written(config),
            "layer_types": kinds,
            "query_pre_attn_scalar": config.score_size(),
            "sliding_window": window.unwrap_or(config.context),
            "sliding_window_pattern": config.local_blocks + 1,
            rope::LOCAL_BASE: config.local_rope_base,
        }),
        Windows::Never => json!({}),
        Windows::Sized => json!({ "sliding_window": window }),
        Windows::Flagged => json!({
            "layer_types": kinds,
            "max_window_layers": if window.is_some() { 0 } else { config.layers },
            "sliding_window": window,
            "use_sliding_window": window.is_some(),
        }),
    };
    super::object(keys)
}
