//! The state machine: links, wings and routes.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use wt_protocol::codes::{LinkCode, StreamCode};
use wt_protocol::control::Role;
use wt_protocol::keys::DeviceKey;
use wt_protocol::{InstanceId, WingId};

use crate::bucket::Bucket;
use crate::limits::Limits;

/// The name of an account. Clones share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account(Arc<str>);

impl Account {
    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Account {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({})", self.0)
    }
}

/// One connection. Never leaves the relay and is never used again; a later link has a
/// greater one, so it is also the generation of what the link registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u64);

/// One route. Never leaves the relay and is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(u64);

/// A link that has proved who it is.
#[derive(Debug, Clone)]
pub struct NewLink {
    /// The account that its token names.
    pub account: Account,
    /// The device that proved itself.
    pub device: DeviceKey,
    /// A client, or a wing that proved its identity.
    pub role: Role,
    /// One start of the dialling process.
    pub instance: InstanceId,
}

/// What a link got.
#[derive(Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its id.
    pub link: LinkId,
    /// Routes that it may carry.
    pub max_routes: u16,
    /// What must be done because of it.
    pub commands: Vec<Command>,
}

/// What the shell must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Close a link that the core has forgotten already.
    CloseLink {
        /// Which one.
        link: LinkId,
        /// What to tell it.
        code: LinkCode,
    },
}

/// A route that may be spliced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Give it back with [`Core::close_route`].
    pub route: RouteId,
    /// The link of the wing on which to open the other stream.
    pub wing_link: LinkId,
}

/// Why a route was not bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The asking link is gone, so nobody waits for an answer.
    Gone,
    /// A limit is reached.
    Busy,
    /// No wing of this account has that id and is online. The same whether the id is
    /// unknown, another account's or this account's own.
    NotOnline,
}

impl Refused {
    /// What the client is told.
    ///
    /// `owned` says whether the store has this wing for this very account. An id of
    /// another account gives exactly what an id gives that nobody has.
    pub fn code(self, owned: bool) -> StreamCode {
        match self {
            Refused::Gone => StreamCode::Cancelled,
            Refused::Busy => StreamCode::Busy,
            Refused::NotOnline if owned => StreamCode::Offline,
            Refused::NotOnline => StreamCode::NotFound,
        }
    }
}

/// How much there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Links, of wings and clients.
    pub links: usize,
    /// Wings that are online.
    pub wings: usize,
    /// Routes.
    pub routes: usize,
}

/// Decides. See the crate's head.
///
/// Times are measured from any fixed point and must not go back by much.
#[derive(Debug)]
pub struct Core {
    limits: Limits,
    last_id: u64,
    links: HashMap<LinkId, LinkState>,
    wings: HashMap<WingId, WingState>,
    routes: HashMap<RouteId, Ends>,
    accounts: HashMap<Account, AccountState>,
}

#[derive(Debug)]
struct LinkState {
    of: NewLink,
    routes: HashSet<RouteId>,
}

/// A wing that is online. All its links belong to one instance.
#[derive(Debug)]
struct WingState {
    account: Account,
    instance: InstanceId,
    /// Never empty; the newest is the greatest.
    links: BTreeSet<LinkId>,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    client: LinkId,
    wing: LinkId,
}

#[derive(Debug)]
struct AccountState {
    links: u32,
    wings: BTreeSet<WingId>,
    opens: Bucket,
}

impl Core {
    /// Starts with nobody online.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            last_id: 0,
            links: HashMap::new(),
            wings: HashMap::new(),
            routes: HashMap::new(),
            accounts: HashMap::new(),
        }
    }

    /// Enters a link that has proved who it is.
    ///
    /// A wing of the same instance gains a link. A wing of another instance is replaced:
    /// its links are closed and their routes end with them.
    ///
    /// # Errors
    /// What to close the link with: its account holds too many links, or its wing is online
    /// for another account.
    pub fn register(&mut self, now: Duration, new: NewLink) -> Result<Registered, LinkCode> {
        self.forget_idle_accounts(now);
        let mut commands = Vec::new();
        if let Role::Wing(id) = &new.role
            && let Some(wing) = self.wings.get(id)
        {
            if wing.account != new.account {
                // The store let nobody else register it, so this is a fault, and it is
                // told like any proof that does not hold.
                return Err(LinkCode::Unauthenticated);
            }
            if wing.instance != new.instance {
                for link in wing.links.clone() {
                    self.forget_link(link, LinkCode::Replaced, &mut commands);
                }
            }
        }
        let (_, burst) = self.rate();
        let account = self
            .accounts
            .entry(new.account.clone())
            .or_insert_with(|| AccountState {
                links: 0,
                wings: BTreeSet::new(),
                opens: Bucket::full(burst, now),
            });
        if account.links >= self.limits.links_per_account {
            // Nobody was replaced for it: a replaced link made room.
            return Err(LinkCode::Busy);
        }
        account.links += 1;
        self.last_id += 1;
        let link = LinkId(self.last_id);
        let max_routes = match &new.role {
            Role::Client => self.limits.routes_per_client_link,
            Role::Wing(id) => {
                account.wings.insert(id.clone());
                let wing = self.wings.entry(id.clone()).or_insert_with(|| WingState {
                    account: new.account.clone(),
                    instance: new.instance,
                    links: BTreeSet::new(),
                });
                wing.links.insert(link);
                self.limits.routes_per_wing_link
            }
        };
        let routes = HashSet::new();
        self.links.insert(link, LinkState { of: new, routes });
        Ok(Registered {
            link,
            max_routes,
            commands,
        })
    }

    /// Takes a link out, with its routes, whose streams end with it. A link that was
    /// taken out before is no fault.
    pub fn link_closed(&mut self, link: LinkId) {
        self.take_link(link);
    }

    /// Binds a client's stream to a link of the wing that it asks for.
    ///
    /// The newest link of the wing is taken, or the newest that has room.
    ///
    /// # Errors
    /// Why there is no such route; [`Refused::code`] says what to tell the client.
    pub fn open_route(
        &mut self,
        now: Duration,
        client: LinkId,
        wing: &WingId,
    ) -> Result<Bound, Refused> {
        let (rate, burst) = self.rate();
        let asking = self.links.get(&client).ok_or(Refused::Gone)?;
        if asking.of.role != Role::Client {
            // Wings accept routes and open none: to them no wing exists.
            return Err(Refused::NotOnline);
        }
        let account = self
            .accounts
            .get_mut(&asking.of.account)
            .expect("a link's account is kept as long as the link");
        if !account.opens.take(rate, burst, now) {
            return Err(Refused::Busy);
        }
        if asking.routes.len() >= usize::from(self.limits.routes_per_client_link) {
            return Err(Refused::Busy);
        }
        let wing = self
            .wings
            .get(wing)
            .filter(|wing| wing.account == asking.of.account)
            .ok_or(Refused::NotOnline)?;
        let room = usize::from(self.limits.routes_per_wing_link);
        let wing_link = wing
            .links
            .iter()
            .rev()
            .copied()
            .find(|link| self.links[link].routes.len() < room)
            .ok_or(Refused::Busy)?;

        self.last_id += 1;
        let route = RouteId(self.last_id);
        let ends = Ends {
            client,
            wing: wing_link,
        };
        self.routes.insert(route, ends);
        for link in [client, wing_link] {
            self.links
                .get_mut(&link)
                .expect("both links were just seen")
                .routes
                .insert(route);
        }
        Ok(Bound { route, wing_link })
    }

    /// Takes a route out. A route that ended with one of its links is no fault.
    pub fn close_route(&mut self, route: RouteId) {
        let Some(ends) = self.routes.remove(&route) else {
            return;
        };
        for link in [ends.client, ends.wing] {
            if let Some(link) = self.links.get_mut(&link) {
                link.routes.remove(&route);
            }
        }
    }

    /// Closes all links of a device.
    ///
    /// A link that was authenticated before the revocation may register after this: the
    /// shell asks the store once more when it has registered a link.
    pub fn revoke_device(&mut self, device: &DeviceKey) -> Vec<Command> {
        let mut links: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, link)| link.of.device == *device)
            .map(|(id, _)| *id)
            .collect();
        links.sort_unstable();
        let mut commands = Vec::new();
        for link in links {
            self.forget_link(link, LinkCode::Revoked, &mut commands);
        }
        commands
    }

    /// The wings of an account that are online, in the order of their ids.
    pub fn online(&self, account: &Account) -> Vec<WingId> {
        self.accounts
            .get(account)
            .map(|account| account.wings.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// The account of a link that is there.
    pub fn account_of(&self, link: LinkId) -> Option<Account> {
        Some(self.links.get(&link)?.of.account.clone())
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        Counts {
            links: self.links.len(),
            wings: self.wings.len(),
            routes: self.routes.len(),
        }
    }

    /// Accounts that are remembered, with links or without.
    #[cfg(test)]
    pub(crate) fn accounts_kept(&self) -> usize {
        self.accounts.len()
    }

    fn rate(&self) -> (u32, u32) {
        (
            self.limits.route_opens_per_second,
            self.limits.route_open_burst,
        )
    }

    fn forget_link(&mut self, link: LinkId, code: LinkCode, commands: &mut Vec<Command>) {
        if self.take_link(link) {
            commands.push(Command::CloseLink { link, code });
        }
    }

    fn take_link(&mut self, link: LinkId) -> bool {
        let Some(state) = self.links.remove(&link) else {
            return false;
        };
        for route in state.routes {
            self.close_route(route);
        }
        let account = self
            .accounts
            .get_mut(&state.of.account)
            .expect("a link's account is kept as long as the link");
        account.links -= 1;
        if let Role::Wing(id) = &state.of.role {
            // Compares on the link's own id: a link that was replaced takes nothing from
            // the one that replaced it.
            let gone = self.wings.get_mut(id).is_some_and(|wing| {
                wing.links.remove(&link);
                wing.links.is_empty()
            });
            if gone {
                self.wings.remove(id);
                account.wings.remove(id);
            }
        }
        true
    }

    /// Drops accounts without links whose buckets are full again.
    ///
    /// A look at every idle account per registration would be a cost that grows with the
    /// number of accounts, so it is done only when they far outnumber the links.
    fn forget_idle_accounts(&mut self, now: Duration) {
        let (rate, burst) = self.rate();
        if self.accounts.len() > 2 * self.links.len() + 64 {
            self.accounts
                .retain(|_, a| a.links > 0 || !a.opens.is_full(rate, burst, now));
        }
    }
}
