//! The host exchange between processes: every member sends to the group's first rank, which answers every
//! member.

use crate::job::Job;
use bootstrap::world::Rendezvous;
use hal::{Error, Exchange, Result};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The call's name in errors.
const OPERATION: &str = "exchange";
/// A rank that waits for an answer waits this much longer than the rank that knows which ranks are missing, so
/// that the latter reports.
const LONGER: Duration = Duration::from_secs(2);

/// One rank's end of an exchange. It counts its own calls: the n-th call of one member meets the n-th call of
/// the others.
pub(crate) struct HostExchange {
    job: Arc<Job>,
    label: String,
    members: Vec<usize>,
    index: usize,
    // The same on all members, and different for every exchange of a member.
    address: u64,
    timeout: Duration,
    calls: AtomicU64,
}

impl HostExchange {
    /// The `occurrence`-th exchange with this label and these members.
    pub(crate) fn new(
        job: Arc<Job>,
        label: &str,
        members: &[usize],
        occurrence: u64,
        timeout: Duration,
    ) -> HostExchange {
        let mut hasher = DefaultHasher::new();
        (label, members, occurrence).hash(&mut hasher);
        // 0 is reserved as the address of notices.
        let address = hasher.finish().max(1);
        let own = job.rank();
        let index = members.iter().position(|&member| member == own);
        let index = index.expect("a bug in Fascicle: World::exchange lets only members through");
        let (label, members, calls) = (label.into(), members.to_vec(), AtomicU64::new(0));
        HostExchange {
            job,
            label,
            members,
            index,
            address,
            timeout,
            calls,
        }
    }

    // The first number of a call, which uses two: one for the parts, one for the answer.
    fn next(&self) -> (u64, u64) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        (call, 2 * call)
    }

    fn send(&self, to: usize, number: u64, bytes: &[u8]) -> Result<()> {
        let _open = self.job.enter()?;
        let sent = self
            .job
            .post()
            .send(self.members[to], self.address, number, bytes);
        sent.map_err(|fault| {
            self.job.error(
                &fault,
                &format!("to rank {} in {}", self.members[to], self.label),
            )
        })
    }

    // Receives one letter from each of these members, in their order.
    fn receive(
        &self,
        from: &[usize],
        call: u64,
        number: u64,
        longer: Duration,
    ) -> Result<Vec<Vec<u8>>> {
        let mut letters = vec![None; from.len()];
        let mut wait = self.job.wait(self.timeout);
        loop {
            for (letter, &member) in letters
                .iter_mut()
                .zip(from)
                .filter(|(letter, _)| letter.is_none())
            {
                *letter = self
                    .job
                    .post()
                    .take(self.members[member], self.address, number);
            }
            if letters.iter().all(Option::is_some) {
                return Ok(letters.into_iter().flatten().collect());
            }
            let missing = || {
                let absent = letters
                    .iter()
                    .zip(from)
                    .filter(|(letter, _)| letter.is_none());
                absent.map(|(_, &member)| self.members[member]).collect()
            };
            self.job.pump(&mut wait)?;
            wait.check(&self.job, longer, |waited| {
                self.late(call, missing(), waited)
            })?;
        }
    }

    fn late(&self, sequence: u64, missing: Vec<usize>, waited: Duration) -> Error {
        Error::Timeout {
            group: self.label.clone(),
            rank: self.job.rank(),
            operation: OPERATION.into(),
            sequence,
            missing,
            waited,
        }
    }

    fn others(&self) -> Vec<usize> {
        (0..self.members.len())
            .filter(|&member| member != self.index)
            .collect()
    }

    fn gather(&self, call: u64, number: u64, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut parts = self.receive(&self.others(), call, number, Duration::ZERO)?;
        parts.insert(self.index, own.to_vec());
        let all = pack(&parts);
        self.others()
            .into_iter()
            .try_for_each(|member| self.send(member, number + 1, &all))?;
        Ok(parts)
    }
}

impl Exchange for HostExchange {
    fn rank(&self) -> usize {
        self.index
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.job.abort().check()?;
        let (call, number) = self.next();
        if self.index == 0 {
            return self.gather(call, number, bytes);
        }
        self.send(0, number, bytes)?;
        let all = self.receive(&[0], call, number + 1, LONGER)?;
        let parts = all
            .first()
            .and_then(|all| unpack(all))
            .filter(|parts| parts.len() == self.members.len());
        parts.ok_or_else(|| {
            Error::invalid(
                OPERATION,
                "an answer of another form",
                format!("{} parts", self.members.len()),
            )
        })
    }

    fn broadcast(&self, root: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        self.job.abort().check()?;
        let (call, number) = self.next();
        if self.index == root {
            self.others()
                .into_iter()
                .try_for_each(|member| self.send(member, number, bytes))?;
            return Ok(bytes.to_vec());
        }
        self.receive(&[root], call, number, Duration::ZERO)
            .map(|mut letters| letters.swap_remove(0))
    }
}

impl fmt::Debug for HostExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HostExchange(`{}`, rank {} of {})",
            self.label,
            self.index,
            self.members.len()
        )
    }
}

// Each part, preceded by its length.
fn pack(parts: &[Vec<u8>]) -> Vec<u8> {
    parts
        .iter()
        .flat_map(|part| [&(part.len() as u64).to_le_bytes()[..], part].concat())
        .collect()
}

fn unpack(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (len, rest) = bytes.split_first_chunk::<8>()?;
        let (part, rest) =
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        parts.push(part.to_vec());
        bytes = rest;
    }
    Some(parts)
}

/// Makes exchanges for this process's rank.
pub(crate) struct Meeting {
    pub(crate) job: Arc<Job>,
    pub(crate) timeout: Duration,
}

impl Rendezvous for Meeting {
    fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>> {
        let occurrence = self.job.occurrence(label, members);
        Ok(Arc::new(HostExchange::new(
            self.job.clone(),
            label,
            members,
            occurrence,
            self.timeout,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_packing() {
        for parts in [
            vec![],
            vec![vec![]],
            vec![vec![1, 2, 3], vec![], vec![4; 300]],
        ] {
            assert_eq!(unpack(&pack(&parts)), Some(parts));
        }
        assert_eq!(unpack(&[1, 2, 3]), None);
        assert_eq!(unpack(&9u64.to_le_bytes()), None);
    }
}
