//! A map that only grows and is read without a lock, for what every launch looks up.

use hal::lock;
use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, OnceLock},
};

/// Keys and the values that were made for them, each once.
pub(crate) struct Grown<K, V> {
    buckets: [Link<K, V>; BUCKETS],
    // Held while a value is made, so that no value is made twice.
    making: Mutex<()>,
}

const BUCKETS: usize = 128;

type Link<K, V> = OnceLock<Box<Entry<K, V>>>;

struct Entry<K, V> {
    key: K,
    value: V,
    next: Link<K, V>,
}

impl<K: Hash + Eq, V> Grown<K, V> {
    /// The value of a key. `make` makes it the first time.
    ///
    /// # Errors
    /// Those of `make`, which the next call tries again.
    pub(crate) fn get<E>(&self, key: K, make: impl FnOnce(&K) -> Result<V, E>) -> Result<&V, E> {
        let bucket = &self.buckets[bucket(&key)];
        if let Ok(found) = find(bucket, &key) {
            return Ok(found);
        }
        let _making = lock(&self.making);
        let end = match find(bucket, &key) {
            Ok(found) => return Ok(found),
            Err(end) => end,
        };
        let value = make(&key)?;
        let next = OnceLock::new();
        let entry = end.get_or_init(|| Box::new(Entry { key, value, next }));
        Ok(&entry.value)
    }

    /// All values.
    pub(crate) fn into_values(self) -> impl Iterator<Item = V> {
        self.buckets.into_iter().flat_map(|bucket| {
            let mut link = bucket.into_inner();
            std::iter::from_fn(move || {
                let entry = *link.take()?;
                link = entry.next.into_inner();
                Some(entry.value)
            })
        })
    }
}

// The value, or the end of the list if it is not there.
fn find<'a, K: Eq, V>(bucket: &'a Link<K, V>, key: &K) -> Result<&'a V, &'a Link<K, V>> {
    let mut link = bucket;
    while let Some(entry) = link.get() {
        if entry.key == *key {
            return Ok(&entry.value);
        }
        link = &entry.next;
    }
    Err(link)
}

fn bucket(key: &impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() as usize % BUCKETS
}

impl<K, V> Default for Grown<K, V> {
    fn default() -> Self {
        Grown {
            buckets: [const { OnceLock::new() }; BUCKETS],
            making: Mutex::default(),
        }
    }
}

impl<K, V> fmt::Debug for Grown<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_a_failure_is_not_kept() {
        let grown = Grown::default();
        assert_eq!(grown.get(3, |_| Err("not now")), Err("not now"));
        for round in 0..2 {
            for key in 0..1000 {
                let made = grown.get(key, |key| match round {
                    0 => Ok(2 * key),
                    _ => Err("made again"),
                });
                assert_eq!(made, Ok(&(2 * key)));
            }
        }
        assert_eq!(grown.into_values().sum::<i32>(), 999 * 1000);
    }
}
