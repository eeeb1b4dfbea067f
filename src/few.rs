//! A list that is mostly empty or of one: no allocation for those.

/// See the module.
#[derive(Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    #[expect(clippy::box_collection, reason = "one word instead of three: it is made and dropped with every publish")]
    more: Option<Box<Vec<T>>>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, more: None }
    }
}

impl<T> Few<T> {
    pub(crate) fn of(item: T) -> Self {
        Self { first: Some(item), more: None }
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.first.is_none() {
            self.first = Some(item);
        } else {
            self.more.get_or_insert_default().push(item);
        }
    }

    /// Gives out each, in order. Quicker than the iterator where there is mostly none or one.
    #[inline]
    pub(crate) fn pour(self, mut give: impl FnMut(T)) {
        if let Some(first) = self.first {
            give(first);
        }
        if let Some(more) = self.more {
            more.into_iter().for_each(give);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Takes the one item that there is; `None`: there are none, or more.
    #[inline]
    pub(crate) fn take_lone(&mut self) -> Option<T> {
        if self.more.is_none() { self.first.take() } else { None }
    }

    /// Whether one of the last `reach` items, or the first, satisfies `is`.
    pub(crate) fn has_lately(&self, reach: usize, is: impl Fn(&T) -> bool) -> bool {
        self.first.as_ref().is_some_and(&is) || self.more.iter().flat_map(|more| more.iter().rev().take(reach)).any(is)
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more.map(|more| *more).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_order() {
        let mut few = Few::default();
        assert!(few.is_empty());
        few.push(9);
        assert_eq!((few.take_lone(), few.take_lone()), (Some(9), None));
        for n in 0..4 {
            few.push(n);
        }
        assert_eq!(few.take_lone(), None);
        assert!(few.has_lately(1, |n| *n == 0) && few.has_lately(1, |n| *n == 3) && !few.has_lately(1, |n| *n == 1));
        let mut poured = Vec::new();
        few.pour(|n| poured.push(n));
        assert_eq!(poured, [0, 1, 2, 3]);
        assert_eq!(
            poured
                .into_iter()
                .fold(Few::default(), |mut few, n| {
                    few.push(n);
                    few
                })
                .into_iter()
                .collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
    }
}
