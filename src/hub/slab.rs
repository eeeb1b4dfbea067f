//! Things under numbers, which stay what they are while others come and go.

use std::ops::{Index, IndexMut};

/// See the module.
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, item: T) -> usize {
        let Some(id) = self.free.pop() else {
            self.places.push(Some(item));
            return self.places.len() - 1;
        };
        self.places[id] = Some(item);
        id
    }

    /// Takes out what is there.
    pub(crate) fn remove(&mut self, id: usize) -> T {
        let item = self.places[id].take();
        self.free.push(id);
        item.unwrap_or_else(|| gone())
    }
}

impl<T> Index<usize> for Slab<T> {
    type Output = T;

    fn index(&self, id: usize) -> &T {
        self.places[id].as_ref().unwrap_or_else(|| gone())
    }
}

impl<T> IndexMut<usize> for Slab<T> {
    fn index_mut(&mut self, id: usize) -> &mut T {
        self.places[id].as_mut().unwrap_or_else(|| gone())
    }
}

/// Whoever keeps a number keeps it no longer than what it stands for is there.
#[cold]
fn gone() -> ! {
    unreachable!("a number that stands for nothing");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_are_given_again() {
        let mut slab = Slab::new();
        let ids: Vec<_> = (0..4).map(|n| slab.insert(n)).collect();
        assert_eq!((slab.remove(ids[1]), slab.remove(ids[2]), slab.len()), (1, 2, 2));
        slab[ids[3]] += 10;
        let again = [slab.insert(7), slab.insert(8)];
        assert_eq!((slab[ids[0]], slab[ids[3]], slab[again[0]], slab[again[1]], slab.len()), (0, 13, 7, 8, 4));
        assert!(again.iter().all(|id| ids.contains(id)));
    }

    #[test]
    #[should_panic(expected = "stands for nothing")]
    fn number_of_what_is_gone_is_a_bug() {
        let mut slab = Slab::new();
        let id = slab.insert(());
        slab.remove(id);
        slab.remove(id);
    }
}
