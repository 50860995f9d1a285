//! The usual cast: Ada, who owns a machine with a wing, and Ben, who reaches it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::process::{self, free_port};
use crate::profile::{Profile, Run};
use crate::relay::{Relay, is_free, is_healthy};
use crate::wait::eventually;

/// Ada's label of her wing.
///
/// Long and odd enough that a search for it finds nothing by chance.
pub const LABEL: &str = "ada-box-7k2mq";

/// A relay, a wing and a client.
///
/// The fields are dropped in order: first the profiles, then the relay they use.
pub struct World {
    /// The client's user.
    pub ben: Profile,
    /// The wing's user.
    pub ada: Profile,
    /// The relay, when it is a process of its own; else Ada's wing holds one.
    pub relay: Option<Relay>,
    addr: SocketAddr,
    url: String,
    /// What the stand-alone relay's operator was told of each login, by profile.
    approved: Mutex<BTreeMap<String, Value>>,
}

impl World {
    /// Ada runs `wt roost start`. Ben has done nothing yet.
    #[track_caller]
    pub fn roost() -> Self {
        Self::roost_with("")
    }

    /// Like [`World::roost`], with further lines in Ada's `wing.yaml`.
    #[track_caller]
    pub fn roost_with(wing_yaml: &str) -> Self {
        let addr = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let world = Self {
            ben: Profile::new("ben"),
            ada: Profile::new("ada"),
            relay: None,
            addr,
            url: format!("http://{addr}"),
            approved: Mutex::default(),
        };
        write_wing_yaml(&world.ada, LABEL, wing_yaml);
        world.start_roost().ok();
        world
    }

    /// A stand-alone relay; Ada signed in there and runs `wt start`. Ben has done nothing yet.
    #[track_caller]
    pub fn standalone() -> Self {
        Self::standalone_at(Relay::start(), "")
    }

    /// Like [`World::standalone`], with a relay that was started specially and further lines
    /// in Ada's `wing.yaml`.
    #[track_caller]
    pub fn standalone_at(relay: Relay, wing_yaml: &str) -> Self {
        let world = Self {
            ben: Profile::new("ben"),
            ada: Profile::new("ada"),
            addr: relay.addr(),
            url: relay.url().to_owned(),
            relay: Some(relay),
            approved: Mutex::default(),
        };
        write_wing_yaml(&world.ada, LABEL, wing_yaml);
        world.login(&world.ada);
        world.start_wing().ok();
        world
    }

    /// The URL that users give to `--roost`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where the relay listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Starts Ada's roost on the world's address.
    #[track_caller]
    pub fn start_roost(&self) -> Run {
        self.ada
            .wt(&["roost", "start", "--addr", &self.addr.to_string()])
    }

    /// Starts Ada's wing for the stand-alone relay.
    #[track_caller]
    pub fn start_wing(&self) -> Run {
        self.ada.wt(&["start", "--roost", &self.url])
    }

    /// Signs a profile in, approved by the relay's operator; returns the account.
    #[track_caller]
    pub fn login(&self, who: &Profile) -> Value {
        login(who, &self.url, |code| match &self.relay {
            Some(relay) => {
                let run = relay.approve(code).ok();
                self.approved
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(who.name().to_owned(), run.json());
                run
            }
            None => self.ada.wt(&["roost", "approve", code]),
        })
    }

    /// Lets Ben in: he signs in, and Ada's wing admits his key.
    ///
    /// With a roost one approval does both. With a stand-alone relay the operator approves
    /// the sign-in, and Ada admits the key on her machine.
    #[track_caller]
    pub fn admit_ben(&self) {
        self.login(&self.ben);
        if self.relay.is_some() {
            self.admit(&self.ben);
        }
    }

    /// Admits a profile that signed in at the stand-alone relay: Ada writes its key on her
    /// wing's list, as the approval showed it.
    ///
    /// # Panics
    /// When the profile did not sign in, or the list cannot be changed.
    #[track_caller]
    pub fn admit(&self, who: &Profile) {
        let approved = self
            .approved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(who.name())
            .unwrap_or_else(|| panic!("{} did not sign in at the relay", who.name()))
            .clone();
        let path = self.ada.dir().join("clients.json");
        let mut list: Value = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).expect("the wing's list is JSON"),
            Err(_) => json!({"version": 1, "clients": []}),
        };
        list["clients"]
            .as_array_mut()
            .expect("the wing's list has clients")
            .push(json!({
                "client": approved["client"],
                "device": approved["device"],
                "name": who.name(),
                "source": "local",
                "role": "operator",
                "added_at_ms": 0,
            }));
        let text = serde_json::to_vec_pretty(&list).expect("JSON can be written");
        let draft = self.ada.dir().join("clients.json.draft");
        write_private(&draft, &text);
        std::fs::rename(&draft, &path).expect("a file of a profile can be replaced");
    }

    /// The process of Ada's daemon: wing, or roost.
    #[track_caller]
    pub fn daemon_pid(&self) -> u32 {
        let status = self.ada.wt_json(&["status"]);
        let pid = find(&status, "pid")
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("`wt status --json` names no pid: {status}"));
        u32::try_from(pid).expect("a process id has 32 bits")
    }

    /// Kills Ada's daemon with SIGKILL.
    #[track_caller]
    pub fn kill_daemon(&self) {
        process::kill9(self.daemon_pid());
    }

    /// Waits until the relay answers.
    #[track_caller]
    pub fn wait_for_relay(&self) {
        eventually("the relay to answer", || {
            is_healthy(self.addr).then_some(())
        });
    }

    /// Whether the relay's port is free in TCP and UDP.
    pub fn port_is_free(&self) -> bool {
        is_free(self.addr)
    }

    /// Ada's wing as Ben's `wt wings --json` lists it.
    #[track_caller]
    pub fn row(&self, args: &[&str]) -> Value {
        let all: Vec<&str> = ["wings"].iter().chain(args).copied().collect();
        let list = self.ben.wt_json(&all);
        list["wings"]
            .as_array()
            .and_then(|rows| rows.iter().find(|row| row["wing_id"] == self.wing_id()))
            .unwrap_or_else(|| panic!("Ada's wing is not listed: {list}"))
            .clone()
    }

    /// The id of Ada's wing, as she sees it.
    #[track_caller]
    pub fn wing_id(&self) -> String {
        wing_id(&self.ada)
    }
}

/// The id of a profile's wing.
#[track_caller]
pub fn wing_id(profile: &Profile) -> String {
    let id = profile.wt_json(&["wing", "id"]);
    find(&id, "wing_id")
        .or_else(|| find(&id, "id"))
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("`wt wing id --json` has no id: {id}"))
        .to_owned()
}

/// Signs a profile in at a roost and returns the account; `approve` gets the code.
#[track_caller]
pub fn login(who: &Profile, url: &str, approve: impl FnOnce(&str) -> Run) -> Value {
    let login = who.spawn(&["login", "--roost", url, "--json"]);
    let first: Value =
        serde_json::from_str(&login.line(0)).expect("the first line of a login is a document");
    let code = first["user_code"]
        .as_str()
        .unwrap_or_else(|| panic!("the first line has no user_code: {first}"));
    assert!(
        first["verification_uri"].is_string(),
        "the first line has no verification_uri: {first}"
    );
    approve(code).ok();
    let done = login.wait().ok();
    let last = done
        .json_lines()
        .pop()
        .expect("a login has at least its first line");
    assert!(
        last["account"].is_string() || last["account"].is_object(),
        "the last line has no account: {last}"
    );
    last
}

/// Writes a profile's `wing.yaml` as its user would.
///
/// # Panics
/// When the file system refuses.
pub fn write_wing_yaml(profile: &Profile, label: &str, lines: &str) {
    use std::os::unix::fs::DirBuilderExt;

    let dir = profile.dir();
    if !dir.exists() {
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&dir)
            .expect("a profile can be made");
    }
    write_private(
        &dir.join("wing.yaml"),
        format!("label: {label}\n{lines}").as_bytes(),
    );
}

/// Writes a file that its owner alone may read.
fn write_private(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    std::fs::File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(bytes))
        .unwrap_or_else(|error| panic!("could not write {}: {error}", path.display()));
}

/// The first value under a key, wherever it is in a document.
pub fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map
            .get(key)
            .or_else(|| map.values().find_map(|inner| find(inner, key))),
        Value::Array(list) => list.iter().find_map(|inner| find(inner, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
