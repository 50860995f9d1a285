//! An input as a row of decisions, for targets whose input is not text from outside but a
//! case to be made up.

/// The decisions that are left. After the last one every decision is the first choice, so
/// that each input makes a whole case.
pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// A number below `below`, which is at most 256.
    pub(crate) fn number(&mut self, below: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first) % below
    }

    /// Whether; in one of four, since most cases need few of what is asked for so.
    pub(crate) fn rarely(&mut self) -> bool {
        self.number(4) == 3
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.number(of.len())]
    }

    /// Up to `most` things.
    pub(crate) fn some<T>(&mut self, most: usize, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.number(most + 1)).map(|_| one(self)).collect()
    }
}
