//! The first bytes of a route: all that a relay reads of it.

use serde::{Deserialize, Serialize};

use crate::ids::{RouteNonce, WingId};

/// Protocol versions that an end offers, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRange {
    /// Oldest version spoken.
    pub min: u16,
    /// Newest version spoken.
    pub max: u16,
}

impl VersionRange {
    /// What this build speaks.
    pub const CURRENT: Self = Self {
        min: 1,
        max: crate::PROTOCOL_VERSION,
    };

    /// The newest version that both ends speak, if there is one.
    pub fn best_common(self, other: Self) -> Option<u16> {
        let best = self.max.min(other.max);
        (best >= self.min && best >= other.min).then_some(best)
    }
}

/// Opens a stream. The relay reads it, acts on it, and passes it on unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamHeader {
    /// A route from a client to a wing; sealed records follow.
    Route(RouteHeader),
}

/// Where a route goes. What it is for stands inside the seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteHeader {
    /// The wing to reach.
    pub wing: WingId,
    /// Drawn by the client; both ends bind it into the handshake.
    pub nonce: RouteNonce,
    /// Session protocol versions that the client offers.
    pub versions: VersionRange,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_chosen() {
        let range = |min, max| VersionRange { min, max };

        assert_eq!(range(1, 3).best_common(range(2, 5)), Some(3));
        assert_eq!(range(2, 5).best_common(range(1, 3)), Some(3));
        assert_eq!(range(1, 1).best_common(range(2, 5)), None);
        assert_eq!(range(2, 5).best_common(range(1, 1)), None);
    }
}
