//! The rules one by one, and all of them against a small model.

use core::time::Duration;
use std::collections::BTreeMap;

use proptest::prelude::*;
use wt_protocol::codes::{LinkCode, StreamCode};
use wt_protocol::control::Role;
use wt_protocol::keys::{DeviceKey, IdentityKey};
use wt_protocol::{InstanceId, WingId};

use crate::{Account, Bound, Command, Core, Counts, Limits, LinkId, NewLink, Refused, RouteId};

const NOW: Duration = Duration::from_secs(1_000);

#[test]
fn a_client_reaches_a_wing_of_its_own_account() {
    let mut core = Core::new(Limits::default());
    let wing_link = register(&mut core, wing("ann", 1, 1));
    let client = register(&mut core, client("ann", 9));

    let bound = core.open_route(NOW, client, &id(1)).unwrap();

    assert_eq!(bound.wing_link, wing_link);
    assert_eq!(core.online(&"ann".into()), [id(1)]);
}

#[test]
fn another_accounts_wing_looks_exactly_like_one_that_does_not_exist() {
    let mut core = Core::new(Limits::default());
    register(&mut core, wing("ann", 1, 1));
    let bob = register(&mut core, client("bob", 9));

    let of_ann = core.open_route(NOW, bob, &id(1)).unwrap_err();
    let of_nobody = core.open_route(NOW, bob, &id(2)).unwrap_err();

    assert_eq!(of_ann, of_nobody);
    assert_eq!(of_ann.code(false), StreamCode::NotFound);
    assert_eq!(core.online(&"bob".into()), []);
}

#[test]
fn an_own_wing_that_is_not_connected_is_offline() {
    let mut core = Core::new(Limits::default());
    let wing_link = register(&mut core, wing("ann", 1, 1));
    let ann = register(&mut core, client("ann", 9));
    assert!(core.open_route(NOW, ann, &id(1)).is_ok());

    core.link_closed(wing_link);

    let refused = core.open_route(NOW, ann, &id(1)).unwrap_err();
    assert_eq!(refused.code(true), StreamCode::Offline);
    assert_eq!(core.online(&"ann".into()), []);
}

#[test]
fn a_wing_opens_no_routes() {
    let mut core = Core::new(Limits::default());
    let one = register(&mut core, wing("ann", 1, 1));
    register(&mut core, wing("ann", 2, 2));

    assert_eq!(core.open_route(NOW, one, &id(2)), Err(Refused::NotOnline));
}

#[test]
fn another_instance_replaces_a_wing_and_its_late_end_takes_nothing_away() {
    let mut core = Core::new(Limits::default());
    let first = register(&mut core, wing("ann", 1, 1));
    let ann = register(&mut core, client("ann", 9));
    core.open_route(NOW, ann, &id(1)).unwrap();

    let second = core.register(NOW, wing("ann", 1, 2)).unwrap();

    assert_eq!(
        second.commands,
        [Command::CloseLink {
            link: first,
            code: LinkCode::Replaced
        }]
    );
    core.link_closed(first);
    let bound = core.open_route(NOW, ann, &id(1)).unwrap();
    assert_eq!(bound.wing_link, second.link);
    assert_eq!(core.counts().routes, 1);
}

#[test]
fn one_instance_may_hold_several_links_and_the_newest_with_room_is_taken() {
    let limits = Limits {
        routes_per_wing_link: 1,
        ..Limits::default()
    };
    let mut core = Core::new(limits);
    let old = register(&mut core, wing("ann", 1, 1));
    let new = core.register(NOW, wing("ann", 1, 1)).unwrap();
    let ann = register(&mut core, client("ann", 9));

    let first = core.open_route(NOW, ann, &id(1)).unwrap();
    let second = core.open_route(NOW, ann, &id(1)).unwrap();
    let third = core.open_route(NOW, ann, &id(1));

    assert_eq!(new.commands, []);
    assert_eq!((first.wing_link, second.wing_link), (new.link, old));
    assert_eq!(third, Err(Refused::Busy));
    core.close_route(first.route);
    assert_eq!(
        core.open_route(NOW, ann, &id(1)).unwrap().wing_link,
        new.link
    );
}

#[test]
fn a_client_link_carries_its_limit_of_routes_and_no_more() {
    let limits = Limits {
        routes_per_client_link: 2,
        ..Limits::default()
    };
    let mut core = Core::new(limits);
    register(&mut core, wing("ann", 1, 1));
    let ann = register(&mut core, client("ann", 9));
    let other = register(&mut core, client("ann", 9));

    let first = core.open_route(NOW, ann, &id(1)).unwrap();
    core.open_route(NOW, ann, &id(1)).unwrap();

    assert_eq!(core.open_route(NOW, ann, &id(1)), Err(Refused::Busy));
    assert!(core.open_route(NOW, other, &id(1)).is_ok());
    core.close_route(first.route);
    assert!(core.open_route(NOW, ann, &id(1)).is_ok());
}

#[test]
fn an_account_holds_its_limit_of_links_and_others_are_not_touched_by_it() {
    let limits = Limits {
        links_per_account: 2,
        ..Limits::default()
    };
    let mut core = Core::new(limits);
    let first = register(&mut core, client("ann", 9));
    register(&mut core, wing("ann", 1, 1));

    assert_eq!(core.register(NOW, client("ann", 9)), Err(LinkCode::Busy));
    assert!(core.register(NOW, client("bob", 8)).is_ok());
    // A wing that replaces its own link needs no more room than it had.
    assert!(core.register(NOW, wing("ann", 1, 2)).is_ok());
    core.link_closed(first);
    assert!(core.register(NOW, client("ann", 9)).is_ok());
}

#[test]
fn asking_for_routes_is_bounded_in_time_whatever_the_answers_are() {
    let limits = Limits {
        route_opens_per_second: 10,
        route_open_burst: 3,
        ..Limits::default()
    };
    let mut core = Core::new(limits);
    register(&mut core, wing("ann", 1, 1));
    let ann = register(&mut core, client("ann", 9));
    for _ in 0..3 {
        assert_eq!(core.open_route(NOW, ann, &id(7)), Err(Refused::NotOnline));
    }

    assert_eq!(core.open_route(NOW, ann, &id(1)), Err(Refused::Busy));
    // A link made anew does not bring a new allowance.
    let again = register(&mut core, client("ann", 9));
    assert_eq!(core.open_route(NOW, again, &id(1)), Err(Refused::Busy));
    let later = NOW + Duration::from_millis(100);
    assert!(core.open_route(later, ann, &id(1)).is_ok());
}

#[test]
fn a_revoked_device_loses_its_links_and_no_other_device_does() {
    let mut core = Core::new(Limits::default());
    let ours = register(&mut core, client("ann", 9));
    let other = register(&mut core, client("ann", 8));
    register(&mut core, wing("ann", 1, 1));
    core.open_route(NOW, ours, &id(1)).unwrap();

    let commands = core.revoke_device(&device(9));

    assert_eq!(
        commands,
        [Command::CloseLink {
            link: ours,
            code: LinkCode::Revoked
        }]
    );
    assert_eq!(core.counts().routes, 0);
    assert_eq!(core.open_route(NOW, ours, &id(1)), Err(Refused::Gone));
    assert!(core.open_route(NOW, other, &id(1)).is_ok());
    assert_eq!(core.counts().links, 2);
}

#[test]
fn accounts_that_left_are_forgotten() {
    let mut core = Core::new(Limits::default());
    for number in 0..1_000 {
        let link = register(&mut core, client(&format!("account {number}"), 1));
        core.link_closed(link);
    }

    assert!(core.accounts_kept() < 100);
}

#[test]
fn a_wing_of_another_account_is_refused_like_a_false_proof() {
    let mut core = Core::new(Limits::default());
    register(&mut core, wing("ann", 1, 1));

    assert_eq!(
        core.register(NOW, wing("bob", 1, 2)),
        Err(LinkCode::Unauthenticated)
    );
    assert_eq!(core.online(&"ann".into()), [id(1)]);
}

// --- Against a model ---

#[derive(Debug, Clone)]
enum Step {
    Client { account: u8, device: u8 },
    Wing { account: u8, wing: u8, instance: u8 },
    Close { link: usize },
    Open { link: usize, wing: u8 },
    End { route: usize },
    Revoke { device: u8 },
    Wait { ms: u16 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3u8, 0..4u8).prop_map(|(account, device)| Step::Client { account, device }),
        2 => (0..3u8, 0..4u8, 0..2u8)
            .prop_map(|(account, wing, instance)| Step::Wing { account, wing, instance }),
        2 => any::<usize>().prop_map(|link| Step::Close { link }),
        6 => (any::<usize>(), 0..5u8).prop_map(|(link, wing)| Step::Open { link, wing }),
        2 => any::<usize>().prop_map(|route| Step::End { route }),
        1 => (0..4u8).prop_map(|device| Step::Revoke { device }),
        1 => any::<u16>().prop_map(|ms| Step::Wait { ms }),
    ]
}

/// What a reader of the rules would write down on paper: links and routes, nothing else.
#[derive(Debug, Default)]
struct Model {
    links: BTreeMap<LinkId, NewLink>,
    routes: BTreeMap<RouteId, (LinkId, LinkId)>,
    /// Every id that was ever given, to pick stale ones from.
    all_links: Vec<LinkId>,
    all_routes: Vec<RouteId>,
}

impl Model {
    fn drop_link(&mut self, link: LinkId) {
        self.links.remove(&link);
        self.routes.retain(|_, (a, b)| *a != link && *b != link);
    }

    fn obey(&mut self, commands: &[Command]) {
        for Command::CloseLink { link, .. } in commands {
            assert!(self.links.contains_key(link), "a dead link is closed again");
            self.drop_link(*link);
        }
    }

    fn online(&self, account: &Account) -> Vec<WingId> {
        let mut wings: Vec<WingId> = self
            .links
            .values()
            .filter(|link| link.account == *account)
            .filter_map(|link| match &link.role {
                Role::Wing(id) => Some(id.clone()),
                Role::Client => None,
            })
            .collect();
        wings.sort();
        wings.dedup();
        wings
    }

    fn check_bound(&self, asking: LinkId, wing: &WingId, bound: Bound) {
        let client = &self.links[&asking];
        let reached = self
            .links
            .get(&bound.wing_link)
            .expect("a route to a dead link");
        assert_eq!(client.account, reached.account, "a route across accounts");
        assert_eq!(reached.role, Role::Wing(wing.clone()));
        assert_eq!(client.role, Role::Client);
    }
}

proptest! {
    #[test]
    fn no_route_crosses_accounts_or_reaches_a_dead_link_and_counts_return_to_zero(
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let limits = Limits {
            routes_per_wing_link: 3,
            routes_per_client_link: 2,
            links_per_account: 6,
            route_opens_per_second: 20,
            route_open_burst: 20,
        };
        let mut core = Core::new(limits.clone());
        let mut model = Model::default();
        let mut now = NOW;

        for step in steps {
            match step {
                Step::Client { account, device } => {
                    enter(&mut core, &mut model, now, client(name(account), device));
                }
                Step::Wing { account, wing: number, instance } => {
                    enter(&mut core, &mut model, now, wing(name(account), number, instance));
                }
                Step::Close { link } => {
                    if let Some(link) = pick(&model.all_links, link) {
                        core.link_closed(link);
                        model.drop_link(link);
                    }
                }
                Step::Open { link, wing } => {
                    let Some(asking) = pick(&model.all_links, link) else { continue };
                    match core.open_route(now, asking, &id(wing)) {
                        Ok(bound) => {
                            prop_assert!(model.links.contains_key(&asking));
                            model.check_bound(asking, &id(wing), bound);
                            model.routes.insert(bound.route, (asking, bound.wing_link));
                            model.all_routes.push(bound.route);
                        }
                        Err(Refused::Gone) => prop_assert!(!model.links.contains_key(&asking)),
                        Err(Refused::NotOnline) => {
                            let of = &model.links[&asking];
                            let online = model.online(&of.account).contains(&id(wing));
                            prop_assert!(!online || of.role != Role::Client);
                        }
                        Err(Refused::Busy) => {}
                    }
                }
                Step::End { route } => {
                    if let Some(route) = pick(&model.all_routes, route) {
                        core.close_route(route);
                        model.routes.remove(&route);
                    }
                }
                Step::Revoke { device: number } => {
                    let commands = core.revoke_device(&device(number));
                    model.obey(&commands);
                    prop_assert!(model.links.values().all(|l| l.device != device(number)));
                }
                Step::Wait { ms } => now += Duration::from_millis(ms.into()),
            }
            check_counts(&core, &model, &limits);
        }

        for link in model.all_links.clone() {
            core.link_closed(link);
        }
        prop_assert_eq!(core.counts(), Counts::default());
    }
}

fn enter(core: &mut Core, model: &mut Model, now: Duration, new: NewLink) {
    if let Ok(registered) = core.register(now, new.clone()) {
        model.obey(&registered.commands);
        model.links.insert(registered.link, new.clone());
        model.all_links.push(registered.link);
        if let Role::Wing(_) = new.role {
            let instances = model
                .links
                .values()
                .filter(|link| link.role == new.role)
                .filter(|link| link.instance != new.instance);
            assert_eq!(instances.count(), 0, "two instances of one wing are online");
        }
    }
}

fn check_counts(core: &Core, model: &Model, limits: &Limits) {
    let counts = core.counts();
    assert_eq!(counts.links, model.links.len());
    assert_eq!(counts.routes, model.routes.len());
    let mut wings = 0;
    for account in 0..3 {
        let account: Account = name(account).into();
        let online = core.online(&account);
        assert_eq!(online, model.online(&account));
        wings += online.len();
        let links = model.links.values().filter(|l| l.account == account);
        assert!(links.count() <= limits.links_per_account as usize);
    }
    assert_eq!(counts.wings, wings);
    for (id, link) in &model.links {
        let carried = model.routes.values().filter(|(a, b)| a == id || b == id);
        let limit = match link.role {
            Role::Client => limits.routes_per_client_link,
            Role::Wing(_) => limits.routes_per_wing_link,
        };
        assert!(carried.count() <= usize::from(limit));
    }
}

fn pick<T: Copy>(from: &[T], number: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[number % from.len()])
}

fn name(number: u8) -> &'static str {
    ["ann", "bob", "cleo"][usize::from(number)]
}

fn id(number: u8) -> WingId {
    WingId::of_identity(&IdentityKey::from_bytes([number; 32]))
}

fn device(number: u8) -> DeviceKey {
    DeviceKey::from_bytes([number; 32])
}

fn client(account: &str, device_number: u8) -> NewLink {
    NewLink {
        account: account.into(),
        device: device(device_number),
        role: Role::Client,
        instance: InstanceId::from_bytes([device_number; 16]),
    }
}

fn wing(account: &str, number: u8, instance: u8) -> NewLink {
    NewLink {
        account: account.into(),
        device: device(number),
        role: Role::Wing(id(number)),
        instance: InstanceId::from_bytes([instance; 16]),
    }
}

fn register(core: &mut Core, new: NewLink) -> LinkId {
    core.register(NOW, new).unwrap().link
}
