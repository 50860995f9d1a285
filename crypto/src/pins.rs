//! `known_wings.json`: the wings that a client knows, and the names it has for them.
//!
//! An id is a fingerprint, so nobody can offer another identity under a pinned id; what
//! can change under it is the noise key, by a statement with a higher seq. A label is
//! only a claim of whoever presents it. Names are the client's own: a label that was
//! used once stands for one id until the user says otherwise.
//!
//! An identity may name its successor: its pin is followed, and nobody has compared the
//! new one. An identity that was revoked is never used again, whoever it names.
//!
//! This is the file's content and the rules. Locking it and replacing it as a whole
//! is for the shell around it, which never goes on with a file that does not parse.

use core::fmt;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wt_protocol::api::WingStatements;
use wt_protocol::control::SuccessorStatement;
use wt_protocol::keys::{IdentityKey, NoiseKey};
use wt_protocol::{WingId, WingLabel};

use crate::file::{self, FileError, is_default};
use crate::keys::{VerifiedWing, verify_revocation, verify_successor};
use crate::sas::{CompareRuns, TooManyRuns};

/// Successors of successors that are followed at once. A user who was away while a wing
/// changed its identity more often adds it anew.
const MAX_SUCCESSORS: usize = 8;

/// Fewest characters of an id that stand for it, among pinned wings only.
const MIN_PREFIX: usize = 8;

/// A key or id as it is shown to people who compare it: whole, in groups of four.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Of a wing: its whole id.
    pub fn of_wing(wing: &WingId) -> Self {
        Self(wing.grouped())
    }

    /// Of a noise key: the whole key.
    pub fn of_noise_key(key: &NoiseKey) -> Self {
        let text = key.to_string();
        let groups: Vec<&str> = (0..text.len())
            .step_by(4)
            .map(|at| &text[at..text.len().min(at + 4)])
            .collect();
        Self(groups.join("-"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A wing that this client knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    wing_id: WingId,
    identity: IdentityKey,
    noise_key: NoiseKey,
    seq: u64,
    /// This client's name for it, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<WingLabel>,
    /// Where it was last reached. Only a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    roost: Option<String>,
    first_seen_ms: u64,
    last_seen_ms: u64,
    #[serde(default)]
    verified: bool,
    /// When digits were compared lately.
    #[serde(default, skip_serializing_if = "is_default")]
    compared: CompareRuns,
    /// What a newer build wrote; kept when the file is rewritten.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl Pin {
    /// The wing's keys, as they were checked when it was pinned.
    pub fn wing(&self) -> VerifiedWing {
        VerifiedWing::from_pinned(self.identity, self.noise_key, self.seq)
            .expect("pins hold checked keys only")
    }

    /// The wing's id.
    pub fn wing_id(&self) -> &WingId {
        &self.wing_id
    }

    /// This client's name for it, if it has one.
    pub fn label(&self) -> Option<&WingLabel> {
        self.label.as_ref()
    }

    /// Where it was last reached. Only a hint.
    pub fn roost(&self) -> Option<&str> {
        self.roost.as_deref()
    }

    /// When it was first seen, in milliseconds since the Unix epoch.
    pub fn first_seen_ms(&self) -> u64 {
        self.first_seen_ms
    }

    /// When it was last seen, in milliseconds since the Unix epoch.
    pub fn last_seen_ms(&self) -> u64 {
        self.last_seen_ms
    }

    /// Whether its user compared it with the wing itself.
    pub fn is_verified(&self) -> bool {
        self.verified
    }

    /// What to show where users compare.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_wing(&self.wing_id)
    }
}

/// What is left of a pin that its user forgot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The wing.
    pub wing_id: WingId,
    /// The name it had: another wing needs its full id to be reached under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<WingLabel>,
    /// The highest seq seen, so that forgetting does not let an old key back in.
    pub seq: u64,
    /// When, in milliseconds since the Unix epoch.
    pub forgotten_at_ms: u64,
    /// The identity that took its place, as it said itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<WingId>,
    /// Whether it said that it must never be used again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub revoked: bool,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl Tombstone {
    fn of(pin: &Pin, now_ms: u64) -> Self {
        Self {
            wing_id: pin.wing_id.clone(),
            label: pin.label.clone(),
            seq: pin.seq,
            forgotten_at_ms: now_ms,
            successor: None,
            revoked: false,
            unknown: Map::new(),
        }
    }
}

/// A wing that was just forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// The wing.
    pub wing_id: WingId,
    /// The name it had: another wing needs its full id to be reached under it.
    pub label: Option<WingLabel>,
}

/// Why the pin file cannot be used. It is never reset because of this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinFileError {
    /// It is not such a file at all.
    #[error(transparent)]
    File(#[from] FileError),
    /// An entry's id is not the fingerprint of its key, or its key must not be used.
    #[error("the entry of {0} does not hold its own keys")]
    Entry(WingId),
    /// Two entries have one id, or two names are the same.
    #[error("{0} is in it twice")]
    Twice(String),
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u64,
    wings: Vec<Pin>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    forgotten: Vec<Tombstone>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// All that a client knows about wings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    wings: BTreeMap<WingId, Pin>,
    forgotten: BTreeMap<WingId, Tombstone>,
    unknown: Map<String, Value>,
}

/// How a wing compares with its pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not known; it is pinned now.
    FirstSeen,
    /// It is as it was.
    Match,
    /// It has another noise key under a higher seq, signed by its identity.
    Rotated {
        /// The seq that was pinned.
        from: u64,
        /// The seq that is pinned now.
        to: u64,
    },
}

/// Another wing presents a label that belongs to a pinned one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelConflict {
    /// The label.
    pub label: WingLabel,
    /// The wing that this client knows by it.
    pub pinned: WingId,
    /// The wing that presents it too.
    pub offered: WingId,
}

/// What was learned from a wing that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// How it compares with its pin.
    pub change: Change,
    /// A warning: its label is another wing's, so it was not bound.
    pub conflict: Option<LabelConflict>,
}

/// Why a wing must not be used, though its statement is signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinRefusal {
    /// An old statement came back: its key may be one that was given up for a reason.
    #[error("wing {wing} showed an outdated key: seq {offered}, after seq {pinned} was seen")]
    Outdated {
        /// The wing.
        wing: Fingerprint,
        /// The highest seq seen.
        pinned: u64,
        /// The seq offered.
        offered: u64,
    },
    /// Two keys under one seq: the identity key signed what its wing never would.
    #[error("wing {wing} showed key {offered}, and key {pinned} was seen under the same seq")]
    Mismatch {
        /// The wing.
        wing: Fingerprint,
        /// The key that is pinned.
        pinned: Fingerprint,
        /// The key that was offered.
        offered: Fingerprint,
    },
    /// The identity said that it must not be used any more.
    #[error("wing {wing} said that its identity must not be used any more")]
    Revoked {
        /// The wing.
        wing: Fingerprint,
    },
    /// The identity named another one in its place, and is still about.
    #[error("wing {wing} said that it is wing {successor} from now on")]
    Succeeded {
        /// The wing.
        wing: Fingerprint,
        /// The wing that took its place.
        successor: Fingerprint,
    },
}

/// Why a wing was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddWingError {
    /// It must not be used.
    #[error(transparent)]
    Refused(#[from] PinRefusal),
    /// Another wing has the name.
    #[error(transparent)]
    Taken(#[from] LabelTaken),
}

/// What a client should tell its user about identities that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An identity took the place of a pinned one. Nobody has compared it yet.
    Followed {
        /// The identity that stepped down.
        from: WingId,
        /// The one that is pinned now.
        to: WingId,
        /// This client's name for it.
        label: Option<WingLabel>,
    },
    /// A pinned identity was revoked; its name is free for a wing that is added by link.
    Revoked {
        /// The identity.
        wing: WingId,
        /// The name it had.
        label: Option<WingLabel>,
    },
    /// A wing was only known as the successor of an identity that is revoked now: whoever
    /// had that identity's key may have named it. It was forgotten.
    Doubted {
        /// The wing.
        wing: WingId,
        /// The name it had.
        label: Option<WingLabel>,
    },
}

/// A label already stands for another wing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{label} is the name of wing {}", Fingerprint::of_wing(pinned))]
pub struct LabelTaken {
    /// The label.
    pub label: WingLabel,
    /// The wing that has it.
    pub pinned: WingId,
}

/// A wing that proved its id in a handshake, and what it calls itself inside the seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    /// The wing.
    pub wing_id: WingId,
    /// Its label.
    pub label: WingLabel,
}

/// The one wing that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The wing.
    pub wing_id: WingId,
    /// The label that is used for the first time and should be bound, saying so.
    pub binds: Option<WingLabel>,
    /// Warnings: other wings that present the same label.
    pub conflicts: Vec<LabelConflict>,
}

/// Why a name stands for no wing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No wing has this name.
    #[error("no wing is known as {0:?}")]
    NotFound(String),
    /// Several wings could be meant.
    #[error("{name:?} could be any of {}", list(candidates))]
    Ambiguous {
        /// The name.
        name: String,
        /// Who could be meant.
        candidates: Vec<WingId>,
    },
    /// Another wing presents the label of a pinned one that is not there.
    #[error(
        "the wing that calls itself {label} is {}, and the one known by that name is {}",
        list(offered),
        Fingerprint::of_wing(pinned)
    )]
    Mismatch {
        /// The label.
        label: WingLabel,
        /// The wing that this client knows by it.
        pinned: WingId,
        /// The wings that present it.
        offered: Vec<WingId>,
    },
    /// The label belonged to a wing that was forgotten: a full id is needed.
    #[error(
        "{label} was forgotten; the full id is needed to reach {}",
        list(candidates)
    )]
    Forgotten {
        /// The label.
        label: WingLabel,
        /// The wings that present it.
        candidates: Vec<WingId>,
    },
    /// The wing calls itself so, but this client knows it by another name.
    #[error("the wing that calls itself {label} is known here as {known_as}")]
    KnownAs {
        /// The label that was asked for.
        label: WingLabel,
        /// This client's name for it.
        known_as: WingLabel,
        /// The wing.
        wing_id: WingId,
    },
}

fn list(wings: &[WingId]) -> String {
    let shown: Vec<String> = wings.iter().map(WingId::grouped).collect();
    shown.join(", ")
}

impl Pins {
    /// Reads the file. No file at all is [`Pins::default`].
    ///
    /// # Errors
    /// See [`PinFileError`]. An empty file is one that does not parse.
    pub fn parse(bytes: &[u8]) -> Result<Self, PinFileError> {
        let file: File = file::parse(bytes)?;
        let mut pins = Self {
            unknown: file.unknown,
            ..Self::default()
        };
        for pin in file.wings {
            let keys = VerifiedWing::from_pinned(pin.identity, pin.noise_key, pin.seq);
            if !keys.is_ok_and(|wing| *wing.wing_id() == pin.wing_id) {
                return Err(PinFileError::Entry(pin.wing_id));
            }
            if let Some(label) = &pin.label
                && pins.by_label(label).is_some()
            {
                return Err(PinFileError::Twice(label.to_string()));
            }
            let id = pin.wing_id.clone();
            if pins.wings.insert(id.clone(), pin).is_some() {
                return Err(PinFileError::Twice(id.to_string()));
            }
        }
        for tombstone in file.forgotten {
            let id = tombstone.wing_id.clone();
            if pins.forgotten.insert(id.clone(), tombstone).is_some() {
                return Err(PinFileError::Twice(id.to_string()));
            }
        }
        Ok(pins)
    }

    /// Writes the file: the same pins always give the same bytes.
    pub fn to_json(&self) -> Vec<u8> {
        file::to_json(&File {
            version: file::VERSION,
            wings: self.wings.values().cloned().collect(),
            forgotten: self.forgotten.values().cloned().collect(),
            unknown: self.unknown.clone(),
        })
    }

    /// All pins, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Pin> {
        self.wings.values()
    }

    /// The pin of a wing.
    pub fn get(&self, wing: &WingId) -> Option<&Pin> {
        self.wings.get(wing)
    }

    /// The pin with this name.
    pub fn by_label(&self, label: &WingLabel) -> Option<&Pin> {
        self.wings
            .values()
            .find(|pin| pin.label.as_ref() == Some(label))
    }

    /// Compares a wing with its pin, and pins it if it is unknown.
    ///
    /// A label is bound to a wing that has none, if it is free: neither another pinned
    /// wing's nor a forgotten one's. A name that this client has is never changed here.
    ///
    /// # Errors
    /// [`PinRefusal`]; nothing is changed then, and the wing must not be used.
    pub fn observe(
        &mut self,
        wing: &VerifiedWing,
        label: Option<&WingLabel>,
        roost: Option<&str>,
        now_ms: u64,
    ) -> Result<Observation, PinRefusal> {
        let id = wing.wing_id();
        let change = self.compare(wing)?;
        let conflict = label.and_then(|label| self.conflict(label, id));
        let binds = label.filter(|label| conflict.is_none() && self.is_free(label, id));

        self.forgotten.remove(id);
        let pin = self.wings.entry(id.clone()).or_insert_with(|| Pin {
            wing_id: id.clone(),
            identity: wing.identity(),
            noise_key: wing.noise_key(),
            seq: wing.seq(),
            label: None,
            roost: None,
            first_seen_ms: now_ms,
            last_seen_ms: now_ms,
            verified: false,
            compared: CompareRuns::default(),
            unknown: Map::new(),
        });
        pin.noise_key = wing.noise_key();
        pin.seq = wing.seq();
        pin.last_seen_ms = pin.last_seen_ms.max(now_ms);
        if pin.label.is_none() {
            pin.label = binds.cloned();
        }
        if let Some(roost) = roost {
            pin.roost = Some(roost.to_owned());
        }
        Ok(Observation { change, conflict })
    }

    /// Compares a wing with its pin without changing anything: what must pass before
    /// message 1 of a handshake goes out.
    ///
    /// # Errors
    /// [`PinRefusal`]: the wing must not be used.
    pub fn compare(&self, wing: &VerifiedWing) -> Result<Change, PinRefusal> {
        let outdated = |pinned| PinRefusal::Outdated {
            wing: Fingerprint::of_wing(wing.wing_id()),
            pinned,
            offered: wing.seq(),
        };
        let Some(pin) = self.wings.get(wing.wing_id()) else {
            let Some(tombstone) = self.forgotten.get(wing.wing_id()) else {
                return Ok(Change::FirstSeen);
            };
            let fingerprint = Fingerprint::of_wing(wing.wing_id());
            if tombstone.revoked {
                return Err(PinRefusal::Revoked { wing: fingerprint });
            }
            if let Some(successor) = &tombstone.successor {
                return Err(PinRefusal::Succeeded {
                    wing: fingerprint,
                    successor: Fingerprint::of_wing(successor),
                });
            }
            if wing.seq() < tombstone.seq {
                return Err(outdated(tombstone.seq));
            }
            return Ok(Change::FirstSeen);
        };
        if wing.seq() < pin.seq {
            return Err(outdated(pin.seq));
        }
        if wing.seq() > pin.seq {
            let (from, to) = (pin.seq, wing.seq());
            return Ok(Change::Rotated { from, to });
        }
        if wing.noise_key() != pin.noise_key {
            return Err(PinRefusal::Mismatch {
                wing: pin.fingerprint(),
                pinned: Fingerprint::of_noise_key(&pin.noise_key),
                offered: Fingerprint::of_noise_key(&wing.noise_key()),
            });
        }
        Ok(Change::Match)
    }

    /// Finds the one wing that a name stands for.
    ///
    /// `presented` are the wings that were reached and proved themselves, with the labels
    /// they gave inside the seal. It may be empty: an id, a prefix and a pinned label
    /// need none. A pinned wing that could not be reached should be looked up again with
    /// the others in `presented`, so that an impostor of its name is told from an absence.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub fn resolve(&self, name: &str, presented: &[Presented]) -> Result<Resolved, ResolveError> {
        if let Some(wing_id) = WingId::from_typed(name) {
            return Ok(Resolved::plain(wing_id));
        }
        let label = name.parse::<WingLabel>().ok();
        let pinned = label.as_ref().and_then(|label| self.by_label(label));
        let mut candidates = self.by_prefix(name);
        candidates.extend(pinned.map(|pin| pin.wing_id.clone()));
        candidates.sort();
        candidates.dedup();
        if candidates.len() > 1 {
            let name = name.to_owned();
            return Err(ResolveError::Ambiguous { name, candidates });
        }
        match (label, pinned, candidates.pop()) {
            (Some(label), Some(pin), _) => resolve_pinned(label, pin, presented),
            (_, _, Some(wing_id)) => Ok(Resolved::plain(wing_id)),
            (Some(label), None, None) => self.resolve_unpinned(label, presented),
            (None, _, None) => Err(ResolveError::NotFound(name.to_owned())),
        }
    }

    fn resolve_unpinned(
        &self,
        label: WingLabel,
        presented: &[Presented],
    ) -> Result<Resolved, ResolveError> {
        let mut candidates = presenting(&label, presented);
        if candidates.is_empty() {
            return Err(ResolveError::NotFound(label.to_string()));
        }
        if self.is_forgotten(&label) {
            return Err(ResolveError::Forgotten { label, candidates });
        }
        if candidates.len() > 1 {
            let name = label.to_string();
            return Err(ResolveError::Ambiguous { name, candidates });
        }
        let wing_id = candidates.pop().expect("one candidate is left");
        if let Some(known_as) = self.get(&wing_id).and_then(|pin| pin.label.clone()) {
            return Err(ResolveError::KnownAs {
                label,
                known_as,
                wing_id,
            });
        }
        Ok(Resolved {
            wing_id,
            binds: Some(label),
            conflicts: Vec::new(),
        })
    }

    /// Gives a pinned wing a name, because the user said so. Returns whether it is pinned.
    ///
    /// # Errors
    /// [`LabelTaken`] when another wing has the name.
    pub fn set_label(&mut self, wing: &WingId, label: WingLabel) -> Result<bool, LabelTaken> {
        if let Some(conflict) = self.conflict(&label, wing) {
            let pinned = conflict.pinned;
            return Err(LabelTaken { label, pinned });
        }
        let Some(pin) = self.wings.get_mut(wing) else {
            return Ok(false);
        };
        // The user's word ends what a forgotten wing of that name left behind.
        for tombstone in self.forgotten.values_mut() {
            if tombstone.label.as_ref() == Some(&label) {
                tombstone.label = None;
            }
        }
        pin.label = Some(label);
        Ok(true)
    }

    /// Pins a wing that the user named by its full id or a link, and gives it a name,
    /// because the user said so. Without a label it keeps the one it has.
    ///
    /// # Errors
    /// See [`AddWingError`]; nothing is changed then.
    pub fn add(
        &mut self,
        wing: &VerifiedWing,
        label: Option<&WingLabel>,
        roost: Option<&str>,
        now_ms: u64,
    ) -> Result<Change, AddWingError> {
        let taken = label.and_then(|label| self.conflict(label, wing.wing_id()));
        if let Some(LabelConflict { label, pinned, .. }) = taken {
            return Err(LabelTaken { label, pinned }.into());
        }
        let observed = self.observe(wing, None, roost, now_ms)?;
        if let Some(label) = label {
            self.set_label(wing.wing_id(), label.clone())?;
        }
        Ok(observed.change)
    }

    /// Takes note of what identities said when they stepped down. `wings` are those that
    /// the relay lists now, each with its checked statement.
    ///
    /// A revocation counts before any successor does, so nobody follows an identity that
    /// was revoked. Statements that are not signed by their identity do nothing, and so
    /// do those about wings that this client does not know.
    pub fn take_statements(
        &mut self,
        statements: &WingStatements,
        wings: &[VerifiedWing],
        now_ms: u64,
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        for statement in &statements.revocations {
            if let Ok(wing) = verify_revocation(statement) {
                self.revoke(&wing, now_ms, &mut notices);
            }
        }
        for wing in wings {
            let from = self.predecessor(wing, statements);
            notices.extend(from.map(|from| self.follow(&from, wing, now_ms)));
        }
        notices
    }

    /// The pinned identity that this wing takes the place of, if there is one.
    fn predecessor(&self, wing: &VerifiedWing, statements: &WingStatements) -> Option<WingId> {
        self.compare(wing).ok()?;
        let revoked = |id: &WingId| {
            let by_itself = |statement| verify_revocation(statement).as_ref() == Ok(id);
            statements.revocations.iter().any(by_itself)
        };
        let mut current = wing.wing_id().clone();
        for _ in 0..MAX_SUCCESSORS {
            let names_current = |statement: &&SuccessorStatement| statement.new == current;
            let old = statements
                .successors
                .iter()
                .filter(names_current)
                .filter_map(|statement| verify_successor(statement).ok())
                .find(|old| old != wing.wing_id())?;
            let ended = self.forgotten.get(&old);
            if revoked(&old) || ended.is_some_and(|tombstone| tombstone.revoked) {
                return None;
            }
            if self.wings.contains_key(&old) {
                return Some(old);
            }
            current = old;
        }
        None
    }

    /// Puts a wing in the place of a pinned one, which must be there.
    fn follow(&mut self, from: &WingId, wing: &VerifiedWing, now_ms: u64) -> Notice {
        let old = self.wings.remove(from).expect("the predecessor is pinned");
        let mut left = Tombstone::of(&old, now_ms);
        left.successor = Some(wing.wing_id().clone());
        // The name goes over, unless the user has another one for the wing already.
        let has_name = self
            .get(wing.wing_id())
            .is_some_and(|pin| pin.label.is_some());
        let label = old.label.clone().filter(|_| !has_name);
        if label.is_some() {
            left.label = None;
        }
        self.forgotten.insert(from.clone(), left);
        self.observe(wing, label.as_ref(), old.roost.as_deref(), now_ms)
            .expect("the wing was compared before");
        Notice::Followed {
            from: from.clone(),
            to: wing.wing_id().clone(),
            label: self.get(wing.wing_id()).and_then(|pin| pin.label.clone()),
        }
    }

    fn revoke(&mut self, wing: &WingId, now_ms: u64, notices: &mut Vec<Notice>) {
        if let Some(pin) = self.wings.remove(wing) {
            let mut left = Tombstone::of(&pin, now_ms);
            left.revoked = true;
            notices.push(Notice::Revoked {
                wing: wing.clone(),
                label: left.label.clone(),
            });
            self.forgotten.insert(wing.clone(), left);
            return;
        }
        // Of a wing that was never known nothing is kept: anybody can make such ones.
        let Some(left) = self.forgotten.get_mut(wing) else {
            return;
        };
        left.revoked = true;
        let mut successor = left.successor.take();
        for _ in 0..MAX_SUCCESSORS {
            let Some(doubted) = successor.take() else {
                return;
            };
            match self.wings.get(&doubted) {
                // Whom the user compared is known by more than that word.
                Some(pin) if pin.verified => return,
                Some(pin) => {
                    let left = Tombstone::of(pin, now_ms);
                    notices.push(Notice::Doubted {
                        wing: doubted.clone(),
                        label: left.label.clone(),
                    });
                    self.wings.remove(&doubted);
                    self.forgotten.insert(doubted, left);
                }
                None => {
                    successor = self
                        .forgotten
                        .get_mut(&doubted)
                        .and_then(|left| left.successor.take());
                }
            }
        }
    }

    /// The identity that took the place of one that was pinned, as it said itself.
    pub fn successor_of(&self, wing: &WingId) -> Option<&WingId> {
        self.forgotten.get(wing)?.successor.as_ref()
    }

    /// Begins a comparison of digits with a pinned wing, which counts however it ends.
    /// Returns whether the wing is pinned.
    ///
    /// # Errors
    /// [`TooManyRuns`]: three an hour, so that nobody is asked until they say yes.
    pub fn begin_compare(&mut self, wing: &WingId, now_ms: u64) -> Result<bool, TooManyRuns> {
        match self.wings.get_mut(wing) {
            Some(pin) => pin.compared.begin(now_ms).map(|()| true),
            None => Ok(false),
        }
    }

    /// Notes that the user compared the wing with itself. Returns whether it is pinned.
    pub fn set_verified(&mut self, wing: &WingId) -> bool {
        self.wings
            .get_mut(wing)
            .map(|pin| pin.verified = true)
            .is_some()
    }

    /// Forgets a pinned wing by label, id or prefix, leaving a tombstone.
    ///
    /// A wing that named a successor can be forgotten by its full id as well: then it may
    /// be pinned again, as one whose machine was set back may have to be.
    ///
    /// # Errors
    /// [`ResolveError::NotFound`] and [`ResolveError::Ambiguous`].
    pub fn forget(&mut self, name: &str, now_ms: u64) -> Result<Forgotten, ResolveError> {
        let wing_id = self.resolve(name, &[])?.wing_id;
        let Some(pin) = self.wings.remove(&wing_id) else {
            let succeeded = self.forgotten.get_mut(&wing_id);
            let successor = succeeded.and_then(|left| left.successor.take());
            return match successor {
                Some(_) => Ok(Forgotten {
                    wing_id,
                    label: None,
                }),
                None => Err(ResolveError::NotFound(name.to_owned())),
            };
        };
        self.forgotten
            .insert(wing_id.clone(), Tombstone::of(&pin, now_ms));
        let label = pin.label;
        Ok(Forgotten { wing_id, label })
    }

    /// What was forgotten, given up or succeeded, by id.
    pub fn tombstones(&self) -> impl Iterator<Item = &Tombstone> {
        self.forgotten.values()
    }

    fn by_prefix(&self, typed: &str) -> Vec<WingId> {
        let prefix: String = typed
            .chars()
            .filter(|&c| c != '-')
            .map(|c| c.to_ascii_lowercase())
            .collect();
        if prefix.len() < MIN_PREFIX {
            return Vec::new();
        }
        self.wings
            .keys()
            .filter(|id| id.as_str().starts_with(&prefix))
            .cloned()
            .collect()
    }

    fn conflict(&self, label: &WingLabel, offered: &WingId) -> Option<LabelConflict> {
        let pinned = &self.by_label(label)?.wing_id;
        (pinned != offered).then(|| LabelConflict {
            label: label.clone(),
            pinned: pinned.clone(),
            offered: offered.clone(),
        })
    }

    fn is_forgotten(&self, label: &WingLabel) -> bool {
        self.forgotten
            .values()
            .any(|tombstone| tombstone.label.as_ref() == Some(label))
    }

    /// Whether no other wing left this label behind.
    fn is_free(&self, label: &WingLabel, wing: &WingId) -> bool {
        self.forgotten
            .values()
            .all(|tombstone| tombstone.label.as_ref() != Some(label) || tombstone.wing_id == *wing)
    }
}

impl Resolved {
    fn plain(wing_id: WingId) -> Self {
        Self {
            wing_id,
            binds: None,
            conflicts: Vec::new(),
        }
    }
}

fn resolve_pinned(
    label: WingLabel,
    pin: &Pin,
    presented: &[Presented],
) -> Result<Resolved, ResolveError> {
    let pinned = pin.wing_id.clone();
    let is_there = presented.iter().any(|wing| wing.wing_id == pinned);
    let mut offered = presenting(&label, presented);
    offered.retain(|id| *id != pinned);
    if !is_there && !offered.is_empty() {
        return Err(ResolveError::Mismatch {
            label,
            pinned,
            offered,
        });
    }
    let conflicts = offered
        .into_iter()
        .map(|offered| LabelConflict {
            label: label.clone(),
            pinned: pinned.clone(),
            offered,
        })
        .collect();
    Ok(Resolved {
        wing_id: pinned,
        binds: None,
        conflicts,
    })
}

/// The wings that present a label, each once.
fn presenting(label: &WingLabel, presented: &[Presented]) -> Vec<WingId> {
    let mut ids: Vec<WingId> = presented
        .iter()
        .filter(|wing| wing.label == *label)
        .map(|wing| wing.wing_id.clone())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use core::slice::from_ref;

    use super::*;
    use crate::keys::{IdentitySecret, NoiseSecret, WingIdentity, verify_statement};

    #[test]
    fn a_wing_is_pinned_at_first_sight_and_matches_afterwards() {
        let (mut pins, wing) = (Pins::default(), wing(1));

        let first = pins.observe(&wing, Some(&label("box")), Some("https://r"), 10);
        let second = pins.observe(&wing, Some(&label("box")), None, 20);

        assert_eq!(first, observation(Change::FirstSeen));
        assert_eq!(second, observation(Change::Match));
        let pin = pins.get(wing.wing_id()).unwrap();
        assert_eq!(pin.wing(), wing);
        assert_eq!((pin.first_seen_ms(), pin.last_seen_ms()), (10, 20));
        assert_eq!(pin.roost(), Some("https://r"));
        assert_eq!(pin.label(), Some(&label("box")));
        assert!(!pin.is_verified());
    }

    #[test]
    fn a_higher_seq_is_taken_and_a_lower_one_refused_ever_after() {
        let (old, new) = (wing(1), noise_of(wing(1), 2));
        let mut pins = Pins::default();
        pins.observe(&old, None, None, 1).unwrap();

        let rotated = pins.observe(&new, None, None, 2);
        let back = pins.observe(&old, None, None, 3);

        assert_eq!(rotated, observation(Change::Rotated { from: 1, to: 2 }));
        let refusal = PinRefusal::Outdated {
            wing: Fingerprint::of_wing(old.wing_id()),
            pinned: 2,
            offered: 1,
        };
        assert_eq!(back, Err(refusal.clone()));
        assert_eq!(pins.get(old.wing_id()).unwrap().wing(), new);
        pins.forget(old.wing_id().as_str(), 4).unwrap();
        assert_eq!(pins.observe(&old, None, None, 5), Err(refusal));
        assert!(pins.observe(&new, None, None, 6).is_ok());
    }

    #[test]
    fn another_key_under_the_same_seq_is_refused_with_both_shown() {
        let (real, other) = (wing(1), noise_of(wing(1), 1));
        let mut pins = Pins::default();
        pins.observe(&real, None, None, 1).unwrap();
        let before = pins.clone();

        let refused = pins.observe(&other, None, None, 2);

        let expected = PinRefusal::Mismatch {
            wing: Fingerprint::of_wing(real.wing_id()),
            pinned: Fingerprint::of_noise_key(&real.noise_key()),
            offered: Fingerprint::of_noise_key(&other.noise_key()),
        };
        assert_eq!(refused, Err(expected));
        assert_eq!(pins, before);
    }

    #[test]
    fn a_label_of_another_wing_is_a_warning_and_not_bound() {
        let (a, b) = (wing(1), wing(2));
        let mut pins = Pins::default();
        pins.observe(&a, Some(&label("box")), None, 1).unwrap();

        let observed = pins.observe(&b, Some(&label("box")), None, 2).unwrap();

        assert_eq!(observed.change, Change::FirstSeen);
        assert_eq!(observed.conflict, Some(conflict("box", &a, &b)));
        assert_eq!(pins.get(b.wing_id()).unwrap().label(), None);
        assert_eq!(pins.by_label(&label("box")).unwrap().wing_id(), a.wing_id());
    }

    #[test]
    fn a_wing_that_renames_itself_keeps_the_clients_name() {
        let (mut pins, a) = (pinned(&[("box", 1)]), wing(1));

        pins.observe(&a, Some(&label("bank")), None, 2).unwrap();

        assert_eq!(pins.get(a.wing_id()).unwrap().label(), Some(&label("box")));
        assert_eq!(
            pins.resolve("bank", &[presents(&a, "bank")]),
            Err(ResolveError::KnownAs {
                label: label("bank"),
                known_as: label("box"),
                wing_id: a.wing_id().clone()
            })
        );
    }

    #[test]
    fn a_pinned_label_stands_for_its_id_whoever_else_presents_it() {
        let (pins, a, b) = (pinned(&[("box", 1)]), wing(1), wing(2));
        let resolve = |presented: &[Presented]| pins.resolve("box", presented);

        assert_eq!(resolve(&[]), plain(&a));
        assert_eq!(resolve(&[presents(&a, "box")]), plain(&a));
        assert_eq!(
            resolve(&[presents(&b, "box"), presents(&a, "renamed")]),
            Ok(Resolved {
                wing_id: a.wing_id().clone(),
                binds: None,
                conflicts: vec![conflict("box", &a, &b)]
            })
        );
        let absent = resolve(&[presents(&b, "box")]);
        assert_eq!(
            absent,
            Err(ResolveError::Mismatch {
                label: label("box"),
                pinned: a.wing_id().clone(),
                offered: vec![b.wing_id().clone()]
            })
        );
        let words = absent.unwrap_err().to_string();
        assert!(words.contains(&a.wing_id().grouped()) && words.contains(&b.wing_id().grouped()));
    }

    #[test]
    fn the_first_use_of_a_label_binds_it_if_one_wing_presents_it() {
        let (pins, a, b) = (Pins::default(), wing(1), wing(2));

        assert_eq!(
            pins.resolve("box", &[presents(&a, "box"), presents(&b, "other")]),
            Ok(Resolved {
                wing_id: a.wing_id().clone(),
                binds: Some(label("box")),
                conflicts: Vec::new()
            })
        );
        let mut candidates = vec![a.wing_id().clone(), b.wing_id().clone()];
        candidates.sort();
        assert_eq!(
            pins.resolve("box", &[presents(&a, "box"), presents(&b, "box")]),
            Err(ResolveError::Ambiguous {
                name: "box".to_owned(),
                candidates
            })
        );
        assert_eq!(
            pins.resolve("box", &[]),
            Err(ResolveError::NotFound("box".to_owned()))
        );
    }

    #[test]
    fn a_full_id_is_always_an_id_and_a_prefix_counts_among_pinned_wings_only() {
        let (pins, a, b) = (pinned(&[("box", 1)]), wing(1), wing(2));
        let (a_id, b_id) = (a.wing_id().as_str(), b.wing_id().as_str());

        assert_eq!(pins.resolve(b_id, &[]), plain(&b));
        assert_eq!(pins.resolve(&a_id[..8], &[]), plain(&a));
        assert_eq!(pins.resolve(&a_id[..25], &[]), plain(&a));
        assert!(pins.resolve(&a_id[..7], &[]).is_err());
        assert!(pins.resolve(&b_id[..8], &[]).is_err());
        assert!(pins.resolve("no such name!", &[]).is_err());
    }

    #[test]
    fn a_label_that_looks_like_the_start_of_a_pinned_id_is_ambiguous() {
        let (a, b) = (wing(1), wing(2));
        let mut pins = pinned(&[("box", 1)]);
        let prefix = &a.wing_id().as_str()[..8];
        let unpinned = pins.resolve(prefix, &[presents(&b, prefix)]);
        assert_eq!(unpinned, plain(&a), "a claim of a stranger does not count");

        pins.observe(&b, Some(&label(prefix)), None, 1).unwrap();

        let mut candidates = vec![a.wing_id().clone(), b.wing_id().clone()];
        candidates.sort();
        let name = prefix.to_owned();
        assert_eq!(
            pins.resolve(prefix, &[]),
            Err(ResolveError::Ambiguous { name, candidates })
        );
    }

    #[test]
    fn a_forgotten_label_needs_the_full_id_of_whoever_presents_it_next() {
        let (mut pins, a, b) = (pinned(&[("box", 1)]), wing(1), wing(2));

        assert_eq!(&pins.forget("box", 5).unwrap().wing_id, a.wing_id());

        let again = pins.resolve("box", &[presents(&b, "box")]);
        let (label_, candidates) = (label("box"), vec![b.wing_id().clone()]);
        assert_eq!(
            again,
            Err(ResolveError::Forgotten {
                label: label_,
                candidates
            })
        );
        assert_eq!(pins.resolve(b.wing_id().as_str(), &[]), plain(&b));
        pins.observe(&b, Some(&label("box")), None, 6).unwrap();
        assert_eq!(pins.get(b.wing_id()).unwrap().label(), None);
        assert_eq!(pins.set_label(b.wing_id(), label("box")), Ok(true));
        assert_eq!(pins.resolve("box", &[]), plain(&b));
        let reparsed = Pins::parse(&pins.to_json()).unwrap();
        assert_eq!(reparsed, pins);
    }

    #[test]
    fn a_grouped_or_upper_case_id_is_an_id_and_never_a_label() {
        let (pins, a, b) = (pinned(&[("box", 1)]), wing(1), wing(2));
        let typed = b.wing_id().grouped().to_ascii_uppercase();

        assert_eq!(pins.resolve(&typed, &[]), plain(&b));
        let prefix = &a.wing_id().grouped()[..9];
        assert_eq!(pins.resolve(prefix, &[]), plain(&a));
        assert!(pins.resolve(&prefix[..8], &[]).is_err());
    }

    #[test]
    fn a_wing_that_is_added_gets_the_name_that_the_user_gives_it() {
        let (mut pins, a, b) = (pinned(&[("box", 1)]), wing(1), wing(2));
        let before = pins.clone();

        let taken = pins.add(&b, Some(&label("box")), None, 2);
        let pinned = a.wing_id().clone();
        let label_ = label("box");
        assert_eq!(
            taken,
            Err(LabelTaken {
                label: label_,
                pinned
            }
            .into())
        );
        assert_eq!(pins, before);

        pins.forget("box", 3).unwrap();
        let added = pins.add(&b, Some(&label("box")), Some("https://r"), 4);
        assert_eq!(added, Ok(Change::FirstSeen));
        assert_eq!(pins.resolve("box", &[]), plain(&b));
        assert_eq!(pins.add(&b, None, None, 5), Ok(Change::Match));
        assert_eq!(pins.resolve("box", &[]), plain(&b));
    }

    #[test]
    fn a_new_identity_is_followed_with_its_name_and_unverified() {
        let (mut pins, a, b) = (pinned(&[("box", 1)]), wing(1), wing(2));
        pins.set_verified(a.wing_id());
        let mut statements = WingStatements::default();
        assert_eq!(pins.take_statements(&statements, from_ref(&b), 4), []);
        statements.successors.push(succeeds(1, 2));

        let notices = pins.take_statements(&statements, from_ref(&b), 5);

        assert_eq!(notices, [followed(&a, &b, "box")]);
        assert_eq!(pins.resolve("box", &[]), plain(&b));
        let pin = pins.get(b.wing_id()).unwrap();
        assert!(!pin.is_verified() && pins.get(a.wing_id()).is_none());
        assert_eq!(pins.successor_of(a.wing_id()), Some(b.wing_id()));
        assert_eq!(pins.take_statements(&statements, from_ref(&b), 6), []);
        let came_back = PinRefusal::Succeeded {
            wing: Fingerprint::of_wing(a.wing_id()),
            successor: Fingerprint::of_wing(b.wing_id()),
        };
        assert_eq!(pins.observe(&a, None, None, 7), Err(came_back));
        assert_eq!(Pins::parse(&pins.to_json()), Ok(pins.clone()));
        pins.forget(a.wing_id().as_str(), 8).unwrap();
        assert!(pins.observe(&a, None, None, 9).is_ok());
    }

    #[test]
    fn a_chain_of_new_identities_is_followed_to_its_end_and_a_loop_nowhere() {
        let (mut pins, a, c) = (pinned(&[("box", 1)]), wing(1), wing(3));
        let statements = WingStatements {
            successors: vec![succeeds(2, 3), succeeds(1, 2), succeeds(3, 2)],
            ..WingStatements::default()
        };

        assert_eq!(
            pins.take_statements(&statements, from_ref(&c), 5),
            [followed(&a, &c, "box")]
        );
        assert_eq!(pins.take_statements(&statements, &[c], 6), []);
    }

    #[test]
    fn a_successor_that_the_old_identity_did_not_name_is_not_followed() {
        let (mut pins, b) = (pinned(&[("box", 1)]), wing(2));
        let forged = SuccessorStatement {
            old: wing(1).identity(),
            ..succeeds(3, 2)
        };
        let of_others = succeeds(3, 2);
        let before = pins.clone();

        for successors in [vec![forged], vec![of_others]] {
            let statements = WingStatements {
                successors,
                ..WingStatements::default()
            };
            assert_eq!(pins.take_statements(&statements, from_ref(&b), 5), []);
        }
        assert_eq!(pins, before);
    }

    #[test]
    fn a_wing_that_has_a_name_already_keeps_it_when_it_takes_anothers_place() {
        let (mut pins, a, b) = (pinned(&[("box", 1), ("new", 2)]), wing(1), wing(2));
        pins.set_verified(b.wing_id());
        let statements = WingStatements {
            successors: vec![succeeds(1, 2)],
            ..WingStatements::default()
        };

        let notices = pins.take_statements(&statements, from_ref(&b), 5);

        assert_eq!(notices, [followed(&a, &b, "new")]);
        assert!(pins.get(b.wing_id()).unwrap().is_verified());
        let again = pins.resolve("box", &[presents(&wing(3), "box")]);
        assert!(matches!(again, Err(ResolveError::Forgotten { .. })));
    }

    #[test]
    fn a_revoked_identity_is_followed_by_nobody_and_never_used_again() {
        let (mut pins, a, b) = (pinned(&[("box", 1)]), wing(1), wing(2));
        let statements = WingStatements {
            successors: vec![succeeds(1, 2)],
            revocations: vec![revoked(1), revoked(9)],
        };

        let notices = pins.take_statements(&statements, &[a.clone(), b.clone()], 5);

        let (wing_id, name) = (a.wing_id().clone(), Some(label("box")));
        let expected = Notice::Revoked {
            wing: wing_id,
            label: name,
        };
        assert_eq!(notices, [expected]);
        assert!(pins.get(b.wing_id()).is_none());
        let fingerprint = Fingerprint::of_wing(a.wing_id());
        let refusal = Err(PinRefusal::Revoked { wing: fingerprint });
        assert_eq!(
            pins.observe(&noise_of(a.clone(), 9), None, None, 6),
            refusal
        );
        assert!(pins.forget(a.wing_id().as_str(), 7).is_err());
        let again = pins.resolve("box", &[presents(&b, "box")]);
        assert!(matches!(again, Err(ResolveError::Forgotten { .. })));
        assert_eq!(pins.take_statements(&statements, from_ref(&b), 8), []);
        assert_eq!(Pins::parse(&pins.to_json()), Ok(pins.clone()));
        assert_eq!(pins.tombstones().count(), 1, "strangers leave nothing");
        pins.add(&b, Some(&label("box")), None, 9).unwrap();
        assert_eq!(pins.resolve("box", &[]), plain(&b));
    }

    #[test]
    fn a_successor_of_an_identity_that_is_revoked_later_is_doubted_unless_compared() {
        for compared in [false, true] {
            let (mut pins, b) = (pinned(&[("box", 1)]), wing(2));
            let mut statements = WingStatements {
                successors: vec![succeeds(1, 2)],
                ..WingStatements::default()
            };
            pins.take_statements(&statements, from_ref(&b), 5);
            if compared {
                pins.set_verified(b.wing_id());
            }
            statements.revocations.push(revoked(1));

            let notices = pins.take_statements(&statements, from_ref(&b), 6);

            let doubted = Notice::Doubted {
                wing: b.wing_id().clone(),
                label: Some(label("box")),
            };
            let expected = if compared { vec![] } else { vec![doubted] };
            assert_eq!(notices, expected);
            assert_eq!(pins.get(b.wing_id()).is_some(), compared);
        }
    }

    #[test]
    fn a_wing_is_compared_three_times_an_hour_across_commands() {
        let (mut pins, a) = (pinned(&[("box", 1)]), wing(1));
        for at in 1..=3 {
            assert_eq!(pins.begin_compare(a.wing_id(), at), Ok(true));
        }

        let mut reread = Pins::parse(&pins.to_json()).unwrap();

        assert!(reread.begin_compare(a.wing_id(), 4).is_err());
        assert_eq!(reread.begin_compare(wing(2).wing_id(), 4), Ok(false));
    }

    #[test]
    fn a_name_is_given_to_one_wing_at_a_time() {
        let (mut pins, a, b) = (pinned(&[("box", 1), ("car", 2)]), wing(1), wing(2));

        let taken = pins.set_label(b.wing_id(), label("box"));

        let pinned = a.wing_id().clone();
        assert_eq!(
            taken,
            Err(LabelTaken {
                label: label("box"),
                pinned
            })
        );
        assert_eq!(pins.set_label(a.wing_id(), label("box")), Ok(true));
        assert_eq!(pins.set_label(wing(3).wing_id(), label("new")), Ok(false));
    }

    #[test]
    fn the_file_survives_a_rewrite_with_what_a_newer_build_put_in() {
        let mut pins = pinned(&[("box", 1), ("car", 2), ("old", 3)]);
        pins.set_verified(wing(1).wing_id());
        pins.forget("old", 9).unwrap();
        let mut file: Value = serde_json::from_slice(&pins.to_json()).unwrap();
        file["later"] = "kept".into();
        file["wings"][0]["colour"] = "blue".into();
        file["forgotten"][0]["why"] = "sold".into();
        let bytes = serde_json::to_vec(&file).unwrap();

        let mut parsed = Pins::parse(&bytes).unwrap();
        parsed.observe(&wing(4), None, None, 1).unwrap();
        parsed.forget(wing(4).wing_id().as_str(), 2).unwrap();
        parsed.forgotten.remove(wing(4).wing_id());

        let rewritten: Value = serde_json::from_slice(&parsed.to_json()).unwrap();
        assert_eq!(rewritten, file);
    }

    #[test]
    fn a_file_that_does_not_parse_is_an_error_that_says_why() {
        let good = pinned(&[("box", 1)]).to_json();
        let change = |edit: &dyn Fn(&mut Value)| {
            let mut file: Value = serde_json::from_slice(&good).unwrap();
            edit(&mut file);
            Pins::parse(&serde_json::to_vec(&file).unwrap()).unwrap_err()
        };

        assert!(Pins::parse(&good).is_ok());
        assert!(matches!(
            Pins::parse(&good[..good.len() / 2]),
            Err(PinFileError::File(FileError::Json(_)))
        ));
        let newer_shape = change(&|file| *file = serde_json::json!({"version": 7, "wings": {}}));
        assert_eq!(newer_shape, FileError::Version(7).into());
        let id = wing(1).wing_id().clone();
        let other = wing(2).identity().to_string();
        let swapped = change(&|file| file["wings"][0]["identity"] = other.clone().into());
        assert_eq!(swapped, PinFileError::Entry(id.clone()));
        let low_order = NoiseKey::from_bytes([0; 32]).to_string();
        let weak = change(&|file| file["wings"][0]["noise_key"] = low_order.clone().into());
        assert_eq!(weak, PinFileError::Entry(id.clone()));
        let twice = change(&|file| {
            let mut pin = file["wings"][0].clone();
            pin["label"] = "car".into();
            file["wings"].as_array_mut().unwrap().push(pin);
        });
        assert_eq!(twice, PinFileError::Twice(id.to_string()));
    }

    #[test]
    fn fingerprints_show_the_whole_value_in_groups() {
        let (wing, key) = (wing(1), wing(1).noise_key());

        let shown = Fingerprint::of_wing(wing.wing_id()).to_string();
        assert_eq!(shown.replace('-', ""), wing.wing_id().as_str());
        assert_eq!(&shown[4..5], "-");
        let shown = Fingerprint::of_noise_key(&key).to_string();
        assert_eq!(shown.replace('-', ""), key.to_string());
    }

    /// The same wing for the same number, with seq 1.
    fn wing(number: u8) -> VerifiedWing {
        let identity = IdentitySecret::from_bytes(&[number; 32]);
        let noise = NoiseSecret::from_bytes(&[number; 32]);
        let wing = WingIdentity::from_parts(identity, noise, 1);
        let public = wing.identity().public();
        verify_statement(&wing.wing_id(), &public, &wing.statement()).unwrap()
    }

    /// The same wing with another noise key under this seq.
    fn noise_of(wing: VerifiedWing, seq: u64) -> VerifiedWing {
        let key = NoiseSecret::from_bytes(&[99; 32]).public();
        VerifiedWing::from_pinned(wing.identity(), key, seq).unwrap()
    }

    fn identity(number: u8) -> IdentitySecret {
        IdentitySecret::from_bytes(&[number; 32])
    }

    fn succeeds(old: u8, new: u8) -> SuccessorStatement {
        identity(old).name_successor(wing(new).wing_id())
    }

    fn revoked(number: u8) -> wt_protocol::control::RevocationStatement {
        identity(number).revoke()
    }

    fn followed(from: &VerifiedWing, to: &VerifiedWing, name: &str) -> Notice {
        Notice::Followed {
            from: from.wing_id().clone(),
            to: to.wing_id().clone(),
            label: Some(label(name)),
        }
    }

    fn pinned(wings: &[(&str, u8)]) -> Pins {
        let mut pins = Pins::default();
        for (name, number) in wings {
            pins.observe(&wing(*number), Some(&label(name)), None, 1)
                .unwrap();
        }
        pins
    }

    fn label(text: &str) -> WingLabel {
        text.parse().unwrap()
    }

    fn presents(wing: &VerifiedWing, text: &str) -> Presented {
        Presented {
            wing_id: wing.wing_id().clone(),
            label: label(text),
        }
    }

    fn conflict(text: &str, pinned: &VerifiedWing, offered: &VerifiedWing) -> LabelConflict {
        LabelConflict {
            label: label(text),
            pinned: pinned.wing_id().clone(),
            offered: offered.wing_id().clone(),
        }
    }

    fn plain(wing: &VerifiedWing) -> Result<Resolved, ResolveError> {
        Ok(Resolved::plain(wing.wing_id().clone()))
    }

    fn observation(change: Change) -> Result<Observation, PinRefusal> {
        Ok(Observation {
            change,
            conflict: None,
        })
    }
}
