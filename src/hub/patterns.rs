//! Which of the registered patterns name a key: asked once for each topic that is made, never by a publish to a topic that is there.
//!
//! Segments are the edges of a trie, as in NATS' `sublist`, with `*` as an edge of its own. So what is registered costs a look-up nothing
//! as long as it parts from the key: a key takes a step per segment, and twice the steps from wherever a `*` stands beside the segment
//! itself; in no case more than there are segments in all patterns. Prefixes are told apart by their length: a step for each length
//! that occurs and is no longer than the key.
//!
//! It holds no lock, and is to be kept behind one: what `visit` does in [`matching`](PatternSet::matching) is done under it (H5).

use std::{collections::BTreeMap, fmt, hash::BuildHasher};

use hashbrown::HashTable;

use super::{shared::KeyHasher, slab::Slab};
use crate::pattern::{Form, ONE, Pattern, REST};

/// Patterns, each with something that is wanted where it matches.
pub(crate) struct PatternSet<P> {
    entries: Slab<Entry<P>>,
    nodes: Slab<Node>,
    /// The children that have a segment, by their parent and that.
    named: HashTable<usize>,
    /// One for each separator in use, and one for prefixes.
    roots: Vec<usize>,
    /// How many prefixes there are of each length.
    lengths: BTreeMap<usize, usize>,
    hasher: KeyHasher,
}

/// What takes a pattern out again: once, since it cannot be copied.
#[derive(Debug)]
pub(crate) struct Ticket(usize);

struct Entry<P> {
    node: usize,
    list: List,
    /// Where in the list it stands.
    index: usize,
    payload: P,
}

/// Where a pattern ends.
#[derive(Clone, Copy)]
enum List {
    /// With the node itself.
    Here,
    /// With `>` behind it.
    Rest,
}

/// The segments from a root up to here; or, one step from the root of prefixes, a prefix.
struct Node {
    from: From,
    /// The child behind `*`.
    one: Option<usize>,
    /// How many other children it has.
    named: usize,
    here: Vec<usize>,
    rest: Vec<usize>,
}

/// How one comes to a node.
enum From {
    Named { parent: usize, segment: Box<str> },
    One { parent: usize },
    Root { separator: Option<char> },
}

impl<P> PatternSet<P> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Slab::new(),
            nodes: Slab::new(),
            named: HashTable::new(),
            roots: Vec::new(),
            lengths: BTreeMap::new(),
            hasher: KeyHasher::default(),
        }
    }

    /// How many patterns are registered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Registers a pattern, in steps for its length. The same one may be there any number of times.
    pub(crate) fn insert(&mut self, pattern: &Pattern, payload: P) -> Ticket {
        let mut list = List::Here;
        let node = match pattern.form() {
            Form::Prefix(prefix) => {
                let root = self.root_or_new(None);
                self.named_or_new(root, prefix, |lengths| *lengths.entry(prefix.len()).or_default() += 1)
            }
            Form::Segments { text, separator } => {
                let mut node = self.root_or_new(Some(separator));
                for segment in text.split(separator) {
                    match segment {
                        REST => list = List::Rest,
                        ONE => node = self.one_or_new(node),
                        _ => node = self.named_or_new(node, segment, |_| ()),
                    }
                }
                node
            }
        };
        let index = self.nodes[node].list(list).len();
        let entry = self.entries.insert(Entry { node, list, index, payload });
        self.nodes[node].list(list).push(entry);
        Ticket(entry)
    }

    /// Takes a pattern out, in steps for its length.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> P {
        let Entry { node, list, index, payload } = self.entries.remove(ticket.0);
        let entries = self.nodes[node].list(list);
        entries.swap_remove(index);
        if let Some(moved) = entries.get(index) {
            self.entries[*moved].index = index;
        }
        self.prune(node);
        if self.is_empty() {
            // What a crowd of patterns took is given back.
            *self = Self::new();
        }
        payload
    }

    /// Visits what was registered with each pattern that names the key, in no order.
    pub(crate) fn matching(&self, key: &str, mut visit: impl FnMut(&P)) {
        for &root in &self.roots {
            match self.nodes[root].from {
                From::Root { separator: Some(separator) } => self.matching_segments(root, key, separator, &mut visit),
                _ => self.matching_prefixes(root, key, &mut visit),
            }
        }
    }

    fn matching_segments(&self, root: usize, key: &str, separator: char, visit: &mut impl FnMut(&P)) {
        // Ways that are still to be gone: from which node, and with what is left of the key. `None`: nothing, not even an empty segment.
        let mut ways = Vec::new();
        let mut way = Some((root, Some(key)));
        while let Some((node, left)) = way {
            let Node { one, here, rest, .. } = &self.nodes[node];
            let Some(left) = left else {
                self.visit_all(here, visit);
                way = ways.pop();
                continue;
            };
            self.visit_all(rest, visit);
            let (segment, left) = match left.split_once(separator) {
                Some((segment, left)) => (segment, Some(left)),
                None => (left, None),
            };
            let named = self.named(node, segment).map(|node| (node, left));
            let one = one.map(|node| (node, left));
            way = match (named, one) {
                (Some(named), Some(one)) => {
                    ways.push(one);
                    Some(named)
                }
                (named, one) => named.or(one).or_else(|| ways.pop()),
            };
        }
    }

    fn matching_prefixes(&self, root: usize, key: &str, visit: &mut impl FnMut(&P)) {
        // A length that ends within a character of the key is not that of a prefix of it.
        let prefixes = self.lengths.range(..=key.len()).filter_map(|(length, _)| key.get(..*length));
        for node in prefixes.filter_map(|prefix| self.named(root, prefix)) {
            self.visit_all(&self.nodes[node].here, visit);
        }
    }

    fn visit_all(&self, entries: &[usize], visit: &mut impl FnMut(&P)) {
        for &entry in entries {
            visit(&self.entries[entry].payload);
        }
    }

    fn named(&self, parent: usize, segment: &str) -> Option<usize> {
        let hash = self.hasher.hash_one((parent, segment));
        self.named.find(hash, |node| self.nodes[*node].is_named(parent, segment)).copied()
    }

    fn root_or_new(&mut self, separator: Option<char>) -> usize {
        let is_wanted = |root: &&usize| matches!(self.nodes[**root].from, From::Root { separator: other } if other == separator);
        if let Some(root) = self.roots.iter().find(is_wanted) {
            return *root;
        }
        let root = self.nodes.insert(Node::new(From::Root { separator }));
        self.roots.push(root);
        root
    }

    fn one_or_new(&mut self, parent: usize) -> usize {
        if let Some(one) = self.nodes[parent].one {
            return one;
        }
        let one = self.nodes.insert(Node::new(From::One { parent }));
        self.nodes[parent].one = Some(one);
        one
    }

    fn named_or_new(&mut self, parent: usize, segment: &str, if_new: impl FnOnce(&mut BTreeMap<usize, usize>)) -> usize {
        if let Some(node) = self.named(parent, segment) {
            return node;
        }
        let node = self.nodes.insert(Node::new(From::Named { parent, segment: segment.into() }));
        self.nodes[parent].named += 1;
        let Self { nodes, named, hasher, .. } = self;
        named.insert_unique(hasher.hash_one((parent, segment)), node, |node| nodes[*node].hash(hasher));
        if_new(&mut self.lengths);
        node
    }

    /// Takes away a node that leads to no pattern, and what led to nothing but it.
    fn prune(&mut self, node: usize) {
        let mut next = Some(node);
        while let Some(node) = next.filter(|node| self.nodes[*node].is_empty()) {
            let hash = self.nodes[node].hash(&self.hasher);
            let Node { from, .. } = self.nodes.remove(node);
            next = match from {
                From::Named { parent, segment } => {
                    if let Ok(found) = self.named.find_entry(hash, |other| *other == node) {
                        found.remove();
                    }
                    self.nodes[parent].named -= 1;
                    if let From::Root { separator: None } = self.nodes[parent].from {
                        self.forget_length(segment.len());
                    }
                    Some(parent)
                }
                From::One { parent } => {
                    self.nodes[parent].one = None;
                    Some(parent)
                }
                From::Root { .. } => {
                    self.roots.retain(|root| *root != node);
                    None
                }
            };
        }
    }

    fn forget_length(&mut self, length: usize) {
        if let Some(count) = self.lengths.get_mut(&length) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
    }
}

impl<P> fmt::Debug for PatternSet<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PatternSet").field("patterns", &self.len()).finish_non_exhaustive()
    }
}

impl Node {
    const fn new(from: From) -> Self {
        Self { from, one: None, named: 0, here: Vec::new(), rest: Vec::new() }
    }

    const fn list(&mut self, list: List) -> &mut Vec<usize> {
        match list {
            List::Here => &mut self.here,
            List::Rest => &mut self.rest,
        }
    }

    /// Whether no pattern ends here or goes on from here.
    fn is_empty(&self) -> bool {
        self.one.is_none() && self.named == 0 && self.here.is_empty() && self.rest.is_empty()
    }

    fn is_named(&self, parent: usize, segment: &str) -> bool {
        matches!(&self.from, From::Named { parent: of, segment: own } if *of == parent && **own == *segment)
    }

    /// Only those with a segment are looked up by it.
    fn hash(&self, hasher: &KeyHasher) -> u64 {
        match &self.from {
            From::Named { parent, segment } => hasher.hash_one((*parent, &**segment)),
            From::One { .. } | From::Root { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{hint::black_box, time::Instant};

    use super::*;

    /// Numbers that look random, the same in every run.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            usize::try_from(self.0 >> 33).unwrap() % n
        }

        fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
            all[self.below(all.len())]
        }

        fn segments(&mut self, of: &[&str], at_most: usize, separator: char) -> String {
            let segments: Vec<_> = (0..=self.below(at_most)).map(|_| self.one_of(of)).collect();
            segments.join(&separator.to_string())
        }

        /// Few segments, so that they meet.
        fn pattern(&mut self) -> Pattern {
            if self.below(4) == 0 {
                return Pattern::prefix(&self.segments(&["a", "b", "é"], 4, '.')).unwrap();
            }
            let separator = self.one_of(&['.', '.', '.', '/', 'é']);
            let mut text = self.segments(&["a", "b", "*", "aa"], 4, separator);
            if self.below(4) == 0 {
                text = if self.below(4) == 0 { REST.to_owned() } else { format!("{text}{separator}{REST}") };
            }
            Pattern::with_separator(&text, separator).unwrap()
        }

        fn key(&mut self) -> String {
            let separator = self.one_of(&['.', '.', '/', 'é']);
            self.segments(&["a", "b", "", "*", ">", "aa", "é"], 6, separator)
        }
    }

    fn found(set: &PatternSet<usize>, key: &str) -> Vec<usize> {
        let mut found = Vec::new();
        set.matching(key, |id| found.push(*id));
        found.sort_unstable();
        found
    }

    /// How many there are of everything that a set is made of.
    fn sizes<P>(set: &PatternSet<P>) -> [usize; 5] {
        [set.entries.len(), set.nodes.len(), set.named.len(), set.roots.len(), set.lengths.len()]
    }

    #[test]
    fn set_finds_what_a_list_finds() {
        for seed in 0..2_000 {
            let mut dice = Dice(seed);
            let mut set = PatternSet::new();
            let mut list: Vec<(Pattern, usize, Ticket)> = Vec::new();
            for id in 0..60 {
                // Growing first, then shrinking.
                if list.is_empty() || dice.below(60) > id {
                    let pattern = dice.pattern();
                    let ticket = set.insert(&pattern, id);
                    list.push((pattern, id, ticket));
                } else {
                    let (_, id, ticket) = list.swap_remove(dice.below(list.len()));
                    assert_eq!(set.remove(ticket), id);
                }
                assert_eq!(set.len(), list.len());
                let key = dice.key();
                let mut wanted: Vec<_> =
                    list.iter().filter(|(pattern, ..)| pattern.matches(&key)).map(|(_, id, _)| *id).collect();
                wanted.sort_unstable();
                assert_eq!(found(&set, &key), wanted, "seed {seed}, key {key:?}");
            }
            for (_, _, ticket) in list {
                set.remove(ticket);
            }
            assert_eq!(sizes(&set), [0; 5]);
        }
    }

    #[test]
    fn set_is_as_large_as_what_it_holds_whatever_it_held() {
        for seed in 0..50 {
            let mut dice = Dice(seed);
            let kept: Vec<_> = (0..seed).map(|_| dice.pattern()).collect();
            let mut set = PatternSet::new();
            let mut tickets: Vec<_> = (0..200).map(|_| set.insert(&dice.pattern(), ())).collect();
            let _kept: Vec<_> = kept.iter().map(|pattern| set.insert(pattern, ())).collect();
            while !tickets.is_empty() {
                set.remove(tickets.swap_remove(dice.below(tickets.len())));
            }
            let mut anew = PatternSet::new();
            let _anew: Vec<_> = kept.iter().map(|pattern| anew.insert(pattern, ())).collect();
            assert_eq!(sizes(&set), sizes(&anew), "seed {seed}");
        }
    }

    #[test]
    fn longest_and_most_branching_of_patterns_are_found_and_removed() {
        let mut set = PatternSet::new();
        let stars = vec![ONE; Pattern::MAX_SEGMENTS].join(".");
        let mut patterns = vec![stars.clone()];
        // At each depth a way that goes on beside `*`, and that leads nowhere.
        patterns.extend((1..Pattern::MAX_SEGMENTS).map(|depth| format!("{}a.b", "*.".repeat(depth - 1))));
        patterns.push(format!(">>{}", "a.".repeat(512)));
        let patterns: Vec<Pattern> = patterns.iter().map(|text| text.parse().unwrap()).collect();
        let tickets: Vec<_> = patterns.iter().enumerate().map(|(id, pattern)| set.insert(pattern, id)).collect();
        let key = vec!["a"; Pattern::MAX_SEGMENTS].join(".");
        assert_eq!(found(&set, &key), [0]);
        assert_eq!(found(&set, &"a.".repeat(1 << 16)), [patterns.len() - 1]);
        for ticket in tickets {
            set.remove(ticket);
        }
        assert!(set.is_empty() && found(&set, &key).is_empty());
        assert_eq!(set.named.capacity(), 0, "given back");
    }

    /// The figures for the module's claims, printed.
    #[test]
    #[ignore = "prints times: cargo test --release -p keywake --lib hub::patterns -- --ignored --nocapture"]
    fn times() {
        let keys: Vec<String> = (0..10_000).map(|n| format!("flight.{}.{}", n % 97, n)).collect();
        println!("patterns  per look-up in ns: list, set (found); insert and remove");
        let of_kind = |kind: &str, n: usize| match kind {
            "flight.A.*" => format!("flight.{n}.*"),
            "flight.*.N" => format!("flight.*.{n}"),
            "flight.A.>" => format!("flight.{n}.>"),
            _ => format!(">>flight.{n}."),
        };
        for kind in ["flight.A.*", "flight.*.N", "flight.A.>", ">>flight.A."] {
            for count in [1, 10, 100, 1_000, 10_000, 100_000] {
                let patterns: Vec<Pattern> = (0..count).map(|n| of_kind(kind, n).parse().unwrap()).collect();
                let mut set = PatternSet::new();
                let per = |times: usize, work: &mut dyn FnMut(usize)| {
                    let begin = Instant::now();
                    (0..times).for_each(&mut *work);
                    begin.elapsed().as_secs_f64() * 1e9 / f64::from(u32::try_from(times).unwrap())
                };
                let mut tickets = Vec::new();
                let insert = per(count, &mut |n| tickets.push(set.insert(&patterns[n], n)));
                let mut hits = 0;
                let list = per(10_000_000 / count.max(1_000), &mut |n| {
                    hits += patterns.iter().filter(|pattern| pattern.matches(&keys[n % keys.len()])).count();
                });
                let mut found = 0;
                let trie = per(100_000, &mut |n| set.matching(black_box(&keys[n % keys.len()]), |_| found += 1));
                let mut gone = tickets.into_iter();
                let remove = per(count, &mut |_| {
                    black_box(gone.next().map(|ticket| set.remove(ticket)));
                });
                println!(
                    "{kind:12} {count:7} {list:12.1} {trie:8.1} ({:.2}) {insert:8.1} {remove:8.1}",
                    f64::from(found) / 100_000.0
                );
                black_box(hits);
            }
        }
    }
}
