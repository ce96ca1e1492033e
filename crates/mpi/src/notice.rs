//! Messages between processes about a failing job.

use std::time::Duration;

/// One notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A rank has failed; each receiver ends too, and answers with its state.
    Failed(Failed),
    /// What the sender was doing.
    State {
        /// In words.
        what: String,
        /// Since when.
        age: Duration,
    },
}

/// How a rank failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// World rank.
    pub(crate) rank: usize,
    /// World ranks for which it waited too long, if that was the failure.
    pub(crate) missing: Vec<usize>,
    /// In words.
    pub(crate) reason: String,
}

impl Notice {
    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let word = |number: usize| (number as u64).to_le_bytes();
        match self {
            Notice::Failed(Failed {
                rank,
                missing,
                reason,
            }) => {
                let mut bytes = vec![0];
                bytes.extend(word(*rank));
                bytes.extend(word(missing.len()));
                bytes.extend(missing.iter().flat_map(|&rank| word(rank)));
                bytes.extend(reason.as_bytes());
                bytes
            }
            Notice::State { what, age } => {
                let age = word(age.as_millis().try_into().unwrap_or(usize::MAX));
                [&[1], &age[..], what.as_bytes()].concat()
            }
        }
    }

    /// Decodes bytes; `None` for bytes that no version of this program sends.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Notice> {
        let (kind, mut rest) = bytes.split_first()?;
        let mut word = || {
            let (head, tail) = rest.split_first_chunk::<8>()?;
            rest = tail;
            usize::try_from(u64::from_le_bytes(*head)).ok()
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match kind {
            0 => {
                let (rank, count) = (word()?, word()?);
                let missing = (0..count).map(|_| word()).collect::<Option<_>>()?;
                Some(Notice::Failed(Failed {
                    rank,
                    missing,
                    reason: text(rest),
                }))
            }
            1 => {
                let age = Duration::from_millis(word()? as u64);
                Some(Notice::State {
                    what: text(rest),
                    age,
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_survive_the_way() {
        let failed = Failed {
            rank: 3,
            missing: vec![1, 700],
            reason: "waited 60 s".into(),
        };
        let age = Duration::from_millis(1250);
        for notice in [
            Notice::Failed(failed),
            Notice::State {
                what: "step 17".into(),
                age,
            },
        ] {
            assert_eq!(Notice::decode(&notice.encode()), Some(notice));
        }
    }

    #[test]
    fn what_is_no_notice_is_none() {
        for bytes in [&[][..], &[9], &[0, 1], &[1, 0, 0], &[0; 8]] {
            assert_eq!(Notice::decode(bytes), None, "{bytes:?}");
        }
        let endless = [&[0][..], &1u64.to_le_bytes(), &u64::MAX.to_le_bytes()].concat();
        assert_eq!(Notice::decode(&endless), None);
    }
}
