//! A fixed set of up to 256 candidates.

/// A candidate's position in its service's list, `0..=255`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(pub u8);

/// Most candidates a service may have.
pub const MAX_CANDIDATES: usize = 256;

/// A set of candidates as 256 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CandidateSet([u64; 4]);

impl CandidateSet {
    /// The empty set.
    pub const EMPTY: Self = Self([0; 4]);

    /// The set of the first `count` candidates (`count` at most 256).
    #[must_use]
    pub fn first_n(count: usize) -> Self {
        (0..count.min(MAX_CANDIDATES)).map(|i| CandidateId(i as u8)).collect()
    }

    /// Whether `id` is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: CandidateId) -> bool {
        self.0[usize::from(id.0 >> 6)] >> (id.0 & 63) & 1 == 1
    }

    /// Adds `id`.
    #[inline]
    pub fn insert(&mut self, id: CandidateId) {
        self.0[usize::from(id.0 >> 6)] |= 1 << (id.0 & 63);
    }

    /// Takes `id` out.
    #[inline]
    pub fn remove(&mut self, id: CandidateId) {
        self.0[usize::from(id.0 >> 6)] &= !(1 << (id.0 & 63));
    }

    /// Whether nothing is in the set.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0[0] | self.0[1] | self.0[2] | self.0[3] == 0
    }

    /// Number of candidates in the set.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// What is in both.
    #[inline]
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// What is in either.
    #[inline]
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// What is in `self` and not in `other`.
    #[inline]
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// The members in ascending order.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> Members {
        Members { words: self.0, at: 0 }
    }
}

impl FromIterator<CandidateId> for CandidateSet {
    fn from_iter<T: IntoIterator<Item = CandidateId>>(iter: T) -> Self {
        let mut set = Self::EMPTY;
        for id in iter {
            set.insert(id);
        }
        set
    }
}

impl IntoIterator for &CandidateSet {
    type Item = CandidateId;
    type IntoIter = Members;
    fn into_iter(self) -> Members {
        self.iter()
    }
}

/// Iterator over a set's members.
#[derive(Debug)]
pub struct Members {
    words: [u64; 4],
    at: usize,
}

impl Iterator for Members {
    type Item = CandidateId;

    #[inline]
    fn next(&mut self) -> Option<CandidateId> {
        while self.at < 4 {
            let word = &mut self.words[self.at];
            if *word != 0 {
                let bit = word.trailing_zeros() as u8;
                *word &= *word - 1;
                return Some(CandidateId(self.at as u8 * 64 + bit));
            }
            self.at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set_of_bytes(a: BTreeSet<u8>, b: BTreeSet<u8>) {
            let set = |s: &BTreeSet<u8>| s.iter().map(|&i| CandidateId(i)).collect::<CandidateSet>();
            let ids = |s: CandidateSet| s.iter().map(|c| c.0).collect::<BTreeSet<_>>();
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(ids(x.and(&y)), &a & &b);
            prop_assert_eq!(ids(x.or(&y)), &a | &b);
            prop_assert_eq!(ids(x.minus(&y)), &a - &b);
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.is_empty(), a.is_empty());
            for i in 0..=255 { prop_assert_eq!(x.contains(CandidateId(i)), a.contains(&i)); }
        }
    }

    #[test]
    fn first_n_counts() {
        for n in [0, 1, 63, 64, 65, 255, 256, 1000] {
            assert_eq!(CandidateSet::first_n(n).len(), n.min(256));
        }
    }
}
