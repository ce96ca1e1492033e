//! The pages of all sequences of a pipeline, on this rank.

use super::SequenceCache;
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};
use tensor::{
    DType, Device, Error, MemoryKind, Result,
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
    /// [`Error::OutOfMemory`]; [`Error::Invalid`] if the layer's heads or its type have changed.
    pub(super) fn layer(
        &self,
        (window, name): (Window, &str),
        (device, dtype): (&Device, DType),
        [kv_heads, head_size]: [usize; 2],
    ) -> Result<Pages> {
        let mut groups = self.0.borrow_mut();
        let Group { uses, layers, .. } = groups.entry(window).or_default();
        let shape = PageShape {
            pages: uses.len(),
            kv_heads,
            head_size,
        };
        let Some(layer) = layers.get_mut(name) else {
            let layer = new(device, dtype, shape)?;
            layers.insert(name.to_owned(), layer.clone());
            return Ok(layer);
        };
        grow(layer, shape.pages)?;
        if layer.shape() != shape || layer.dtype() != dtype {
            let found = format!("{shape:?} of {dtype}");
            let needed = format!("{:?} of {}, as before", layer.shape(), layer.dtype());
            return Err(Error::invalid(name, found, needed));
        }
        Ok(layer.clone())
    }

    /// Writes a page of all layers to another one.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn copy(&self, window: Window, [from, to]: [u32; 2]) -> Result<()> {
        let mut groups = self.0.borrow_mut();
        let Group { uses, layers, .. } = groups.entry(window).or_default();
        for layer in layers.values_mut() {
            grow(layer, uses.len())?;
            layer.copy_to(from as usize, 1, layer, to as usize)?;
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
}

fn new(device: &Device, dtype: DType, shape: PageShape) -> Result<Pages> {
    device.allocating(MemoryKind::KeysValues, || Pages::new(device, dtype, shape))
}

// Gives a layer room for as many pages.
fn grow(layer: &mut Pages, pages: usize) -> Result<()> {
    let held = layer.shape();
    if held.pages < pages {
        let larger = new(layer.device(), layer.dtype(), PageShape { pages, ..held })?;
        layer.copy_to(0, held.pages, &larger, 0)?;
        *layer = larger;
    }
    Ok(())
}
