//! Buckets' memory that is beyond the device while no layer uses it: which is on the device, and which comes next.
//!
//! A use of a bucket brings it to the device, and the next one in the order of the last step ahead of its own use. Those whose next
//! use is farthest leave for them. Decisions depend on the sequence of uses alone.

use super::placement::StatePlacement;
use crate::{Context, Mode};
use std::{cell::RefCell, fmt, rc::Rc};
use tensor::{Beyond, Paged, Result, Tensor};

/// Some buffers of a rank, one for each bucket, and those that are on the device.
pub(crate) struct Pages {
    beyond: Rc<Beyond>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    pages: Vec<Rc<Paged>>,
    /// Bytes of pages that may be on the device.
    budget: usize,
    // The last two that were used: an operation may have asked for both before it uses either.
    last: [Option<usize>; 2],
    // The last two of ordinary size: to copy one of them away would wait for work behind which nothing is queued yet.
    busy: [Option<usize>; 2],
    /// Bytes of an ordinary page.
    ordinary: usize,
    // When each was used last, counted in uses.
    used: Vec<u64>,
    clock: u64,
    // The uses since the last step or evaluation began, and those of the one before, for each mode.
    mode: usize,
    asked: Vec<usize>,
    orders: [Order; 2],
    // Uses of that order that are over.
    at: usize,
}

/// Uses among which the next page to bring is looked for: far more than there are before a page that has no room yet.
const MOST_USES_AHEAD: usize = 256;

/// Pages in the order of their uses.
#[derive(Default)]
struct Order {
    pages: Vec<usize>,
    // The places of each page in it.
    places: Vec<Vec<usize>>,
}

impl Order {
    fn new(pages: Vec<usize>, count: usize) -> Order {
        let mut places = vec![Vec::new(); count];
        for (place, page) in pages.iter().enumerate() {
            places[*page].push(place);
        }
        Order { pages, places }
    }

    /// Uses from place `at` until that of a page; steps follow each other. `None` if it is not used.
    fn distance(&self, page: usize, at: usize) -> Option<usize> {
        let places = self.places.get(page)?;
        let next = places.partition_point(|place| *place < at);
        match places.get(next) {
            Some(place) => Some(place - at),
            None => Some(places.first()? + self.pages.len() - at),
        }
    }

    /// The pages from place `at` on, and then those before it.
    fn from(&self, at: usize) -> impl Iterator<Item = usize> {
        let (before, after) = self.pages.split_at(at.min(self.pages.len()));
        after.iter().chain(before).copied()
    }
}

impl Pages {
    /// Without pages so far, in this place; `None` if it is the device. `content` names what they hold.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if a file cannot be made; [`Error::Vendor`](tensor::Error::Vendor) if the
    /// device cannot make a stream.
    pub(super) fn new(
        context: &Context,
        placement: &StatePlacement,
        content: &str,
    ) -> Result<Option<Rc<Pages>>> {
        let Some(place) = placement.place() else {
            return Ok(None);
        };
        let owner = format!("rank {}", context.world().rank());
        let of = (content, owner.as_str());
        let (device, links) = (context.device(), context.links(&place)?);
        let beyond = Beyond::new(device, of, (&place, placement.piece_bytes()), links)?;
        Ok(Some(Rc::new(Pages {
            beyond,
            state: RefCell::default(),
        })))
    }

    /// Adds the memory of a tensor, which becomes zeros, and returns its number.
    pub(super) fn add(&self, tensor: &Tensor) -> usize {
        let mut state = self.state.borrow_mut();
        state.pages.push(Paged::zeros(tensor, &self.beyond));
        state.used.push(0);
        state.pages.len() - 1
    }

    /// Takes the memory or the space of all pages, and sets what may be on the device: the largest page, and two of the
    /// median size by bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if the host or the disk has no room for them;
    /// [`Error::Vendor`](tensor::Error::Vendor).
    pub(super) fn reserve(&self) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let bytes: Vec<usize> = state.pages.iter().map(|page| page.bytes()).collect();
        let all = bytes.iter().map(|&one| one as u64).sum();
        (state.budget, state.ordinary) = budget(bytes);
        self.beyond.reserve(all)
    }

    /// A step or an evaluation begins.
    pub(super) fn begin(&self, mode: Mode) {
        let state = &mut *self.state.borrow_mut();
        let asked = std::mem::take(&mut state.asked);
        if !asked.is_empty() {
            state.orders[state.mode] = Order::new(asked, state.pages.len());
        }
        (state.mode, state.at) = (mode as usize, 0);
    }

    /// What is beyond the device is of no use any more: it is zeros when it is used next.
    pub(super) fn forget(&self) {
        let state = self.state.borrow();
        state.pages.iter().for_each(|page| page.forget());
    }

    /// Makes sure that a page is on the device, because it is used now.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](tensor::Error::OutOfMemory); those of the disk; the failure of work on what leaves.
    pub(super) fn touch(&self, page: usize) -> Result<()> {
        let state = &mut *self.state.borrow_mut();
        if state.last[0] == Some(page) && state.pages[page].is_here() {
            return Ok(());
        }
        if let Some(last) = state.last[0] {
            state.pages[last].record_uses()?;
        }
        state.follow(page);
        state.make_room(page, None)?;
        state.pages[page].arrive()?;
        state.bring_ahead()
    }
}

impl State {
    // Notes the use, and finds its place in the order of the last step: if a step differs, the next place where it agrees again.
    fn follow(&mut self, page: usize) {
        let is_ordinary = 2 * self.pages[page].bytes() >= self.ordinary;
        for (recent, counts) in [(&mut self.last, true), (&mut self.busy, is_ordinary)] {
            if counts && recent[0] != Some(page) {
                *recent = [Some(page), recent[0]];
            }
        }
        self.clock += 1;
        self.used[page] = self.clock;
        self.asked.push(page);
        let order = &self.orders[self.mode];
        if let Some(distance) = order.distance(page, self.at) {
            self.at = (self.at + distance) % order.pages.len() + 1;
        }
    }

    fn next_use(&self, page: usize) -> usize {
        let order = &self.orders[self.mode];
        order.distance(page, self.at).unwrap_or(usize::MAX)
    }

    fn bytes_here(&self) -> usize {
        let here = self.pages.iter().filter(|page| page.is_here());
        here.map(|page| page.bytes()).sum()
    }

    fn is_busy(&self, page: usize) -> bool {
        self.busy.contains(&Some(page)) && self.pages[page].is_changed()
    }

    // Lets pages leave until `page` has room beside the last two, and beside those that are used before `until`. Returns whether
    // it has.
    fn make_room(&self, page: usize, until: Option<usize>) -> Result<bool> {
        if self.pages[page].is_here() {
            return Ok(true);
        }
        loop {
            if self.bytes_here() + self.pages[page].bytes() <= self.budget {
                return Ok(true);
            }
            let here = (0..self.pages.len()).filter(|other| self.pages[*other].is_here());
            let may_leave = here
                .filter(|other| !self.last.contains(&Some(*other)))
                .map(|other| {
                    (
                        self.next_use(other),
                        std::cmp::Reverse(self.used[other]),
                        other,
                    )
                })
                .filter(|(next, _, other)| {
                    until.is_none_or(|until| *next > until && !self.is_busy(*other))
                });
            match may_leave.max() {
                Some((.., leaving)) => self.pages[leaving].leave()?,
                None => return Ok(false),
            }
        }
    }

    // Brings the next page that is not here, as far as it fits beside those that are used before it, and begins to read the one
    // after it.
    fn bring_ahead(&self) -> Result<()> {
        let order = &self.orders[self.mode];
        let missing = |page: &usize| !self.pages[*page].is_here();
        let mut coming = order.from(self.at).take(MOST_USES_AHEAD).filter(missing);
        let Some(next) = coming.next() else {
            return Ok(());
        };
        if !self.make_room(next, Some(self.next_use(next)))? {
            return self.pages[next].fetch();
        }
        self.pages[next].arrive()?;
        match coming.find(|page| *page != next) {
            Some(after) => self.pages[after].fetch(),
            None => Ok(()),
        }
    }
}

/// What may be on the device of pages of these sizes, and their median by bytes. While one is used, the one before can leave and the
/// next one come, but for the few that are exceptionally large, such as tables.
fn budget(mut bytes: Vec<usize>) -> (usize, usize) {
    bytes.sort_unstable();
    let (all, mut below) = (bytes.iter().sum::<usize>(), 0);
    let median = bytes.iter().find(|&&one| {
        below += one;
        2 * below >= all
    });
    let median = median.copied().unwrap_or(0);
    (bytes.last().copied().unwrap_or(0) + 2 * median, median)
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.borrow();
        let here = state.pages.iter().filter(|page| page.is_here()).count();
        write!(f, "Pages({here} of {} here)", state.pages.len())
    }
}
