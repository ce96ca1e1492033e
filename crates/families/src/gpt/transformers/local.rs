//! What settings of Gemma 3 say of its blocks, of which most are local: attention has a window there, and rotary positions a base
//! of their own.

use super::rope;
use crate::GptConfig;
use serde_json::{Map, Value, json};
use train::{Result, foreign::Settings};

/// The words for the two kinds of blocks.
const KINDS: [&str; 2] = ["sliding_attention", "full_attention"];

/// The number of blocks from one that is not local to the next, where no setting says so.
const PATTERN: usize = 6;

/// The same in the words of this program.
pub(super) struct Local {
    /// [`GptConfig::local_blocks`].
    pub(super) blocks: usize,
    /// [`GptConfig::local_rope_base`].
    pub(super) base: f64,
    /// [`GptConfig::score_size`].
    pub(super) score_size: usize,
}

impl Local {
    /// Of kinds of models without any of it.
    pub(super) const NONE: Local = Local {
        blocks: 0,
        base: 10_000.0,
        score_size: 0,
    };

    /// That of settings, whose local blocks have this base.
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
        Ok(Local {
            blocks: blocks(settings, pattern - 1)?,
            base,
            score_size: settings
                .size_or_none("query_pre_attn_scalar")?
                .unwrap_or(256),
        })
    }
}

// The local blocks in front of each that is not, by the list of all kinds if that has one.
fn blocks(settings: &Settings, stated: usize) -> Result<usize> {
    let kinds = settings.get("layer_types").and_then(Value::as_array);
    let Some(kinds) = kinds else {
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

/// The settings of a model. Windows are as long as its context, in which attention meets every earlier token.
pub(super) fn written(config: &GptConfig) -> Map<String, Value> {
    let kind = |block| KINDS[usize::from(!config.is_local(block))];
    let kinds: Vec<&str> = (0..config.layers).map(kind).collect();
    super::object(json!({
        "hidden_activation": super::activation::written(config),
        "layer_types": kinds,
        "query_pre_attn_scalar": config.score_size(),
        "sliding_window": config.context,
        "sliding_window_pattern": config.local_blocks + 1,
        rope::LOCAL_BASE: config.local_rope_base,
    }))
}
