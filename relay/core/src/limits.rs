//! What one account may use of a relay.

/// Caps on links and routes. An operator may set them; the defaults say why they are so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Routes that one link of a wing may carry.
    ///
    /// Default 64. Each may pin one stream window (256 KiB) for a reader that takes
    /// nothing, so a link pins 16 MiB at most, half of its connection window. A wing with
    /// more sessions holds several links.
    pub routes_per_wing_link: u16,
    /// Routes that one link of a client may carry.
    ///
    /// Default 16: 4 MiB at most, half of its connection window.
    pub routes_per_client_link: u16,
    /// Links that one account may hold.
    ///
    /// Default 256. An idle link costs about 45 KiB.
    pub links_per_account: u32,
    /// Routes that one account may ask for in a second, in the long run.
    ///
    /// Default 50. Requests that are refused count as well, which bounds guessing at ids.
    pub route_opens_per_second: u32,
    /// Routes that one account may ask for at once, after a pause.
    ///
    /// Default 200: ten devices that come back after a drop, each with 16 routes.
    pub route_open_burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            routes_per_wing_link: 64,
            routes_per_client_link: 16,
            links_per_account: 256,
            route_opens_per_second: 50,
            route_open_burst: 200,
        }
    }
}
