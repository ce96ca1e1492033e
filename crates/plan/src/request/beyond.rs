//! What a request leaves open may be beyond the device.

use crate::{Preset, Request, StatePlaceKinds};
use parallel::data::UpdatePlace;
use train::config::{MemoryMode, PlaceKind};

impl Request {
    /// The same request, where activations may be wherever a search over segments may put them: what fits some grid only with
    /// them there is found.
    pub(crate) fn with_open_activations(&self) -> Request {
        let mut open = self.clone();
        if self.memory == MemoryMode::Auto && self.activation_places.is_empty() {
            open.activation_places = crate::memory::places(self);
        }
        open
    }

    /// The same request, where what it leaves open may be beyond the device; `None` if it leaves nothing open, or the machine has
    /// nothing beyond its devices that its description prices. On hosts, their memory is not beyond the device.
    pub(crate) fn beyond(&self) -> Option<Request> {
        let place = match self.is_on_hosts() {
            false => PlaceKind::Host,
            true => PlaceKind::Files,
        };
        let is_priced = !self.is_on_hosts() || self.machine.device.files_gbps.is_some();
        let mut wider = self.clone();
        let opens_state = self.state_places.is_empty();
        if opens_state {
            wider.state_places = self.state_beyond(place);
        }
        let opens_activations = self.activation_places.is_empty() && self.segments.is_none();
        if opens_activations {
            wider.activation_places = vec![PlaceKind::Device, place];
        }
        let is_wider = opens_state || opens_activations;
        (is_wider && is_priced && self.preset == Preset::Ours).then_some(wider)
    }

    // What each place of the next frees costs more time for a byte than what the one before frees. State of few bytes stays.
    fn state_beyond(&self, place: PlaceKind) -> Vec<StatePlaceKinds> {
        let optimiser = self.training().optimiser();
        let is_small = optimiser.codes().is_some() || optimiser.factors().is_some();
        let device = PlaceKind::Device;
        let state = if is_small { device } else { place };
        let gradients = match optimiser.factors() {
            Some(_) => device,
            None => place,
        };
        let tried = [
            [state, device, device],
            [state, device, gradients],
            [state, place, device],
            [state, place, gradients],
        ];
        let mut places = vec![StatePlaceKinds::DEVICE];
        for each in tried.map(StatePlaceKinds::from) {
            if !places.contains(&each) {
                places.push(each);
            }
            let update = UpdatePlace::Host;
            let on_host = StatePlaceKinds { update, ..each };
            if self.refuses_update(on_host).is_none() && !places.contains(&on_host) {
                places.push(on_host);
            }
        }
        places
    }

    // Why the weights cannot be updated as these places say: what was found, and what is needed.
    pub(super) fn refuses_update(&self, places: StatePlaceKinds) -> Option<(String, &'static str)> {
        if places.update == UpdatePlace::Device {
            return None;
        }
        if places.optimiser == PlaceKind::Device {
            let found = "host, with state on the device".into();
            return Some((found, "state on the host or in files"));
        }
        let optimiser = self.training().optimiser();
        let by_element = optimiser.matrices().is_none()
            && optimiser.codes().is_none()
            && optimiser.factors().is_none();
        if !by_element {
            let found = format!("host, with {}", optimiser.name());
            return Some((found, "adamw, sgd or lion"));
        }
        let known = self.machine.device.stated_host_update_bandwidth();
        match known {
            Some(_) => None,
            None => Some((
                format!("host on {}", self.machine.name),
                "a machine whose description has device.host_update_gbps",
            )),
        }
    }
}
