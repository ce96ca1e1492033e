//! What updates weights whose state is beyond the device.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use tensor::{Error, Result};

/// What updates weights whose state is beyond the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpdatePlace {
    /// The device: the state comes to it in pieces, and returns.
    #[default]
    Device,
    /// The processors of the host (ZeRO-Offload): gradients go there, and weights in the type of activations return. The state stays
    /// where it is, and weights in the accumulator type are always part of it.
    Host,
}

impl UpdatePlace {
    /// Every place.
    pub const ALL: [UpdatePlace; 2] = [UpdatePlace::Device, UpdatePlace::Host];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            UpdatePlace::Device => "device",
            UpdatePlace::Host => "host",
        }
    }
}

impl fmt::Display for UpdatePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for UpdatePlace {
    type Err = Error;

    /// Reads its word.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another word.
    fn from_str(text: &str) -> Result<Self> {
        let mut all = UpdatePlace::ALL.into_iter();
        let found = || Error::invalid("update", format!("`{text}`"), "device or host");
        all.find(|place| place.name() == text).ok_or_else(found)
    }
}
