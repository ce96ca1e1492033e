//! Where the time of a step went.

use crate::work::{Category, Label, Reason};
use std::sync::Arc;

/// Time of one group's collectives.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupTime {
    /// The group, as text.
    pub label: Arc<str>,
    /// From start to end of its collectives and messages, whatever ran beside them.
    pub total_s: f64,
    /// The part of it in which the compute stream was idle because of it. For messages this part counts as
    /// bubble instead.
    pub exposed_s: f64,
    /// Bytes of its collectives' buffers.
    pub bytes: usize,
}

impl GroupTime {
    /// Time overlapped with compute.
    pub fn hidden_s(&self) -> f64 {
        (self.total_s - self.exposed_s).max(0.0)
    }
}

/// Where the time of one device's compute stream went, in seconds.
///
/// Compute, exposed collectives, bubble and host add up to the total.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakdown {
    /// From the start of the record to the end of the last work on any stream.
    pub total_s: f64,
    /// GEMMs.
    pub matmuls_s: f64,
    /// Attention.
    pub attention_s: f64,
    /// Other kernels and copies.
    pub elementwise_s: f64,
    /// Norms of gradients and updates.
    pub optimiser_s: f64,
    /// The pipeline's bubble: idle because of messages, or because of a stage that arrived late.
    pub bubble_s: f64,
    /// Idle for any other reason: a late host, or the time of a launch.
    pub host_s: f64,
    /// Floating-point operations of GEMMs and attention.
    pub flop: f64,
    /// Collectives by group.
    pub groups: Vec<GroupTime>,
}

impl Breakdown {
    /// Time in which the compute stream computed.
    pub fn compute_s(&self) -> f64 {
        self.matmuls_s + self.attention_s + self.elementwise_s + self.optimiser_s
    }

    /// Time in which it was idle because of a collective.
    pub fn exposed_s(&self) -> f64 {
        self.groups.iter().map(|group| group.exposed_s).sum()
    }

    /// Index of the group with that label; creates the group on first use.
    pub(crate) fn group(&mut self, label: &str) -> u16 {
        let index = self
            .groups
            .iter()
            .position(|group| &*group.label == label)
            .unwrap_or_else(|| {
                self.groups.push(GroupTime {
                    label: label.into(),
                    total_s: 0.0,
                    exposed_s: 0.0,
                    bytes: 0,
                });
                self.groups.len() - 1
            });
        index as u16
    }

    /// Counts work on any stream.
    pub(crate) fn count(&mut self, label: &Label, seconds: f64) {
        self.flop += label.flop;
        if let Some(group) = label.group {
            let group = &mut self.groups[usize::from(group)];
            group.total_s += seconds;
            group.bytes += label.bytes;
        }
    }

    /// Counts work of the compute stream.
    pub(crate) fn busy(&mut self, label: &Label, seconds: f64) {
        match label.category {
            Category::Matmuls => self.matmuls_s += seconds,
            Category::Attention => self.attention_s += seconds,
            Category::Elementwise => self.elementwise_s += seconds,
            Category::Optimiser => self.optimiser_s += seconds,
            Category::Collective | Category::Message => self.idle(label.reason(), seconds),
        }
    }

    /// Counts idle time of the compute stream.
    pub(crate) fn idle(&mut self, reason: Reason, seconds: f64) {
        match reason {
            Reason::Host | Reason::Compute => self.host_s += seconds,
            Reason::Message => self.bubble_s += seconds,
            Reason::Group(group) => self.groups[usize::from(group)].exposed_s += seconds,
        }
    }

    /// This after `times` more of what came since `before`, a record of the same program.
    #[must_use]
    pub fn going_on(&self, before: &Breakdown, times: usize) -> Breakdown {
        let later = |now: f64, then: f64| (now + times as f64 * (now - then)).max(0.0);
        let group = |now: &GroupTime| {
            let mut others = before.groups.iter();
            let then = others.find(|group| group.label == now.label);
            let [total_s, exposed_s] = then.map_or([0.0; 2], |then| [then.total_s, then.exposed_s]);
            let bytes = then.map_or(0, |then| then.bytes);
            GroupTime {
                label: now.label.clone(),
                total_s: later(now.total_s, total_s),
                exposed_s: later(now.exposed_s, exposed_s),
                bytes: now.bytes + times * now.bytes.saturating_sub(bytes),
            }
        };
        Breakdown {
            total_s: later(self.total_s, before.total_s),
            matmuls_s: later(self.matmuls_s, before.matmuls_s),
            attention_s: later(self.attention_s, before.attention_s),
            elementwise_s: later(self.elementwise_s, before.elementwise_s),
            optimiser_s: later(self.optimiser_s, before.optimiser_s),
            bubble_s: later(self.bubble_s, before.bubble_s),
            host_s: later(self.host_s, before.host_s),
            flop: later(self.flop, before.flop),
            groups: self.groups.iter().map(group).collect(),
        }
    }

    /// The same groups, with all times zero.
    pub(crate) fn emptied(&self) -> Breakdown {
        let empty = |group: &GroupTime| GroupTime {
            total_s: 0.0,
            exposed_s: 0.0,
            bytes: 0,
            ..group.clone()
        };
        Breakdown {
            groups: self.groups.iter().map(empty).collect(),
            ..Breakdown::default()
        }
    }
}
