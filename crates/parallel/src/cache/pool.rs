//! The pages of all sequences of a pipeline, on this rank.

use super::SequenceCache;
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};
use tensor::{
    DType, Device, MemoryKind, Result,
    ops::pages::{PageShape, Pages},
};

/// Which layers drop the same pages: those whose tokens attend to this many tokens at most, if there is a bound.
pub(super) type Window = Option<usize>;

/// Pages, by the window of the layers that they belong to. Cloning clones the handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct PagePool(Rc<RefCell<BTreeMap<Window, Group>>>);

// Layers of one window: a page has the same number in each.
#[derive(Debug, Default)]
struct Group {
    // How many sequences use each page.
    uses: Vec<u32>,
    unused: Vec<u32>,
    layers: BTreeMap<String, Pages>,
}

impl PagePool {
    /// A sequence of no tokens, without pages.
    pub(crate) fn sequence(&self) -> SequenceCache {
        SequenceCache::new(self.clone())
    }

    /// Whether the two are handles of one pool.
    pub(super) fn is(&self, other: &PagePool) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Pages that nobody uses, in exchange for some of which a sequence returns its use. Where there are none, some are added: their memory
    /// comes with each layer's next use.
    pub(super) fn exchange(&self, window: Window, returned: &[u32], count: usize) -> Vec<u32> {
        let mut groups = self.0.borrow_mut();
        let group = groups.entry(window).or_default();
        group.end_use(returned);
        (0..count).map(|_| group.take()).collect()
    }

    /// One more sequence uses these pages.
    pub(super) fn share(&self, window: Window, pages: &[u32]) {
        if let Some(group) = self.0.borrow_mut().get_mut(&window) {
            pages
                .iter()
                .for_each(|page| group.uses[*page as usize] += 1);
        }
    }

    /// One sequence less uses these pages. The memory returns to the device with the last page that is used.
    pub(super) fn release(&self, window: Window, pages: &[u32]) {
        let mut groups = self.0.borrow_mut();
        let Some(group) = groups.get_mut(&window) else {
            return;
        };
        group.end_use(pages);
        if group.unused.len() == group.uses.len() {
            groups.remove(&window);
        }
    }

    /// The memory of a layer, with room for all pages.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](tensor::Error::OutOfMemory); [`Error::Invalid`](tensor::Error::Invalid) if the sizes of the layer's
    /// heads have changed.
    pub(super) fn layer(
        &self,
        (window, name): (Window, &str),
        (device, dtype): (&Device, DType),
        [kv_heads, head_size]: [usize; 2],
    ) -> Result<Pages> {
        let mut groups = self.0.borrow_mut();
        let group = groups.entry(window).or_default();
        let shape = PageShape {
            pages: group.uses.len(),
            kv_heads,
            head_size,
        };
        group.with_room(name, |held| match held {
            Some(held) if held.shape() == shape && held.dtype() == dtype => Ok(None),
            Some(held) => larger(held, (device, dtype), shape).map(Some),
            None => new(device, dtype, shape).map(Some),
        })
    }

    /// Writes a page of all layers to another one.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](tensor::Error::OutOfMemory).
    pub(super) fn copy(&self, window: Window, [from, to]: [u32; 2]) -> Result<()> {
        let mut groups = self.0.borrow_mut();
        let Some(group) = groups.get_mut(&window) else {
            return Ok(());
        };
        let pages = group.uses.len();
        let names: Vec<String> = group.layers.keys().cloned().collect();
        for name in names {
            let layer = group.with_room(&name, |held| match held {
                Some(held) if held.shape().pages < pages => {
                    let shape = PageShape {
                        pages,
                        ..held.shape()
                    };
                    larger(held, (held.device(), held.dtype()), shape).map(Some)
                }
                _ => Ok(None),
            })?;
            layer.copy_to(from as usize, 1, &layer, to as usize)?;
        }
        Ok(())
    }

    /// Bytes that a page takes, of all layers of the window.
    pub(super) fn page_bytes(&self, window: Window) -> usize {
        let groups = self.0.borrow();
        let layers = groups
            .get(&window)
            .into_iter()
            .flat_map(|group| group.layers.values());
        layers
            .map(|layer| layer.bytes() / layer.shape().pages.max(1))
            .sum()
    }
}

/// Pages are added by this part of those that there are: each addition moves all, so fewer would cost more, and more would waste more.
const GROWTH: usize = 8;

impl Group {
    fn take(&mut self) -> u32 {
        let first = self.uses.len();
        if self.unused.is_empty() {
            self.uses.resize(first + first / GROWTH + 1, 0);
            self.unused
                .extend((first as u32..self.uses.len() as u32).rev());
        }
        let page = self.unused.pop().expect("added above");
        self.uses[page as usize] = 1;
        page
    }

    fn end_use(&mut self, pages: &[u32]) {
        for page in pages {
            let uses = &mut self.uses[*page as usize];
            *uses -= 1;
            if *uses == 0 {
                self.unused.push(*page);
            }
        }
    }

    // The layer, which `replace` may have replaced.
    fn with_room(
        &mut self,
        name: &str,
        replace: impl FnOnce(Option<&Pages>) -> Result<Option<Pages>>,
    ) -> Result<Pages> {
        if let Some(new) = replace(self.layers.get(name))? {
            self.layers.insert(name.to_owned(), new);
        }
        Ok(self.layers[name].clone())
    }
}

fn new(device: &Device, dtype: DType, shape: PageShape) -> Result<Pages> {
    device.allocating(MemoryKind::KeysValues, || Pages::new(device, dtype, shape))
}

// The pages held, and more.
fn larger(held: &Pages, (device, dtype): (&Device, DType), shape: PageShape) -> Result<Pages> {
    let all = new(device, dtype, shape)?;
    held.copy_to(0, held.shape().pages, &all, 0)?;
    Ok(all)
}
