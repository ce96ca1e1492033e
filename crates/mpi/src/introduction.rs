//! The first message between processes: where each runs, and which processors it may use there.

/// The facts that a process sends about itself.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    /// World rank of the first rank on its host.
    pub(crate) leader: usize,
    /// Its process id on its host.
    pub(crate) process: u32,
    /// Processors that it may use.
    pub(crate) cores: Vec<usize>,
}

impl Introduction {
    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = [self.leader, self.process as usize]
            .into_iter()
            .chain(self.cores.iter().copied());
        words.flat_map(|word| (word as u64).to_le_bytes()).collect()
    }

    /// From such bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Introduction {
        let mut words = bytes.chunks_exact(8).map(|word| {
            u64::from_le_bytes(
                word.try_into()
                    .expect("chunks of eight bytes are eight bytes"),
            ) as usize
        });
        let (leader, process) = (words.next().unwrap_or(0), words.next().unwrap_or(0) as u32);
        Introduction {
            leader,
            process,
            cores: words.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn introductions_survive_the_way() {
        let sent = Introduction {
            leader: 4,
            process: 77,
            cores: vec![0, 3, 130],
        };
        let come = Introduction::decode(&sent.encode());
        assert_eq!(
            (come.leader, come.process, come.cores),
            (4, 77, vec![0, 3, 130])
        );
    }
}
