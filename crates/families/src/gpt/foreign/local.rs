//! What settings say of windows in attention; of the local blocks of Gemma 2 and 3: only they have a window, and those of Gemma 3
//! rotary positions with a base of their own; and of the bounds of scores and logits.

use super::{
    kinds::{Kind, Windows},
    rope::{self, Rotary},
};
use crate::{GptConfig, RopeScaling};
use serde_json::{Map, Value, json};
use train::{Result, foreign::Settings};

/// The words for the two kinds of blocks.
const KINDS: [&str; 2] = ["sliding_attention", "full_attention"];

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
    /// [`GptConfig::score_cap`] and [`GptConfig::logit_cap`].
    pub(super) caps: [f64; 2],
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
            base: GptConfig::default().local_rope_base,
            score_size: 0,
            caps: [0.0; 2],
        })
    }

    /// That of settings of Gemma 2 or 3, and the rotary positions of the blocks that are not local.
    ///
    /// # Errors
    /// [`Error::Foreign`](train::Error::Foreign) for kinds of blocks that do not repeat, for bounds that are not above 0, and for
    /// local blocks whose rotary positions are stretched.
    pub(super) fn of(settings: &Settings, kind: &Kind) -> Result<(Local, Rotary)> {
        // What the library notes for itself, beside the list of kinds.
        settings.skip(&["_sliding_window_pattern"]);
        let pattern = settings.size_or_none("sliding_window_pattern")?;
        let pattern = pattern.unwrap_or(kind.pattern).max(1);
        let (blocks, window) = (blocks(settings, pattern - 1)?, window(settings)?);
        let (base, others) = bases(settings, kind, blocks)?;
        let local = Local {
            window: window.filter(|_| blocks > 0).unwrap_or(0),
            blocks,
            base,
            score_size: settings
                .size_or_none("query_pre_attn_scalar")?
                .unwrap_or(256),
            caps: [cap(settings, kind, 0)?, cap(settings, kind, 1)?],
        };
        Ok((local, others))
    }
}

// The base of local blocks, and the rotary positions of the others.
fn bases(settings: &Settings, kind: &Kind, blocks: usize) -> Result<(f64, Rotary)> {
    if kind.local_base {
        let [local, others] = rope::read_both(settings)?;
        return Ok((local.base, others));
    }
    let all = rope::read(settings, &rope::LLAMA)?;
    match all.scaling {
        _ if blocks == 0 => Ok((GptConfig::default().local_rope_base, all)),
        RopeScaling::None => Ok((all.base, all)),
        _ => Err(settings.refuse(format!(
            "found stretched rotary positions of {}, needs rope_type = \"default\"",
            KINDS[0]
        ))),
    }
}

/// The settings of the bounds of scores and of logits.
const CAPS: [&str; 2] = ["attn_logit_softcapping", "final_logit_softcapping"];

// One of the two; 0 if there is none.
fn cap(settings: &Settings, kind: &Kind, index: usize) -> Result<f64> {
    let key = CAPS[index];
    let Some(unstated) = kind.caps[index] else {
        settings.only(key, &[Value::Null])?;
        return Ok(0.0);
    };
    let none = if settings.states(key) { 0.0 } else { unstated };
    let found = settings.get(key).is_some();
    match settings.number_or(key, none)? {
        cap if cap > 0.0 || !found => Ok(cap),
        cap => Err(settings.refuse(format!("found {key} = {cap}, needs null, or more than 0"))),
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
    let is_local = |block| match kind.has_local_blocks() {
        true => config.is_local(block),
        false => config.window(block).is_some(),
    };
    let word = |block| KINDS[usize::from(!is_local(block))];
    let kinds: Vec<&str> = (0..config.layers).map(word).collect();
    let window = (config.sliding_window > 0).then_some(config.sliding_window);
    let mut keys = super::object(match kind.windows {
        _ if kind.has_local_blocks() => json!({
            "hidden_activation": super::activation::written(config),
            "layer_types": kinds,
            "query_pre_attn_scalar": config.score_size(),
            "sliding_window": window.unwrap_or(config.context),
            "sliding_window_pattern": config.local_blocks + 1,
        }),
        Windows::Never => json!({}),
        Windows::Sized => json!({ "sliding_window": window }),
        Windows::Flagged => json!({
            "layer_types": kinds,
            "max_window_layers": if window.is_some() { 0 } else { config.layers },
            "sliding_window": window,
            "use_sliding_window": window.is_some(),
        }),
    });
    let caps = [config.score_cap, config.logit_cap];
    for (index, key) in CAPS.into_iter().enumerate() {
        if kind.caps[index].is_some() {
            let cap = Some(caps[index]).filter(|cap| *cap > 0.0);
            keys.insert(key.into(), json!(cap));
        }
    }
    if kind.local_base {
        keys.insert(rope::LOCAL_BASE.into(), json!(config.local_rope_base));
    }
    keys
}
