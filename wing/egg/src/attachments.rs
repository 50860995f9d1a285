//! Who is attached, who may type, which size holds, and where each one stopped.
//!
//! A pure core: the server feeds it events and carries out what it answers. One
//! attachment is one terminal, tab or process of a user; it may come back over a new
//! stream after a cut, and then goes on exactly where it stopped.

use std::collections::HashMap;

use wt_protocol::rpc::Principal;
use wt_protocol::session::{Attach, History, Winsize};
use wt_protocol::{AttachmentId, EggEpoch};

/// Attachments that an egg remembers after they were cut, so that they can go on. Each
/// costs under 300 bytes; a user with more cut terminals than this gets fresh snapshots.
const MAX_REMEMBERED: usize = 256;

/// One connection of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId(pub u64);

/// Everyone who is or was attached to one session.
#[derive(Debug)]
pub struct Attachments {
    epoch: EggEpoch,
    known: HashMap<AttachmentId, Attachment>,
    /// Who may type.
    writer: Option<AttachmentId>,
    size: Winsize,
    /// Grows with every attach: who came last.
    clock: u64,
}

#[derive(Debug)]
struct Attachment {
    principal: Principal,
    stream: Option<StreamId>,
    read_only: bool,
    size: Winsize,
    attached_at: u64,
    /// Input taken from the client.
    taken: u64,
    /// Input written to the terminal.
    applied: u64,
}

/// What an attach means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// How the output goes on.
    pub history: History,
    /// Offset of the first output byte to send, after the snapshot if there is one.
    pub output: u64,
    /// Input of this attachment that was applied.
    pub applied: u64,
    /// An older stream of the same attachment, which ends now.
    pub replaces: Option<StreamId>,
}

/// What became of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Write it, but for so many bytes at its start that were taken before.
    Take {
        /// Bytes to leave out.
        skip: usize,
    },
    /// The attachment may not type; the bytes are counted and dropped.
    Drop,
    /// It does not follow what came before: the client is broken.
    Gap,
}

impl Attachments {
    /// Starts with nobody.
    pub fn new(epoch: EggEpoch, size: Winsize) -> Self {
        Self {
            epoch,
            known: HashMap::new(),
            writer: None,
            size,
            clock: 0,
        }
    }

    /// Decides how an attach goes on. The log holds output `log.0..log.1`.
    pub fn attach(
        &mut self,
        request: &Attach,
        principal: Principal,
        stream: StreamId,
        log: (u64, u64),
    ) -> Admitted {
        self.clock += 1;
        let (history, output) = self.history(request, &principal, log);
        let old = match history {
            History::Fresh | History::Differs => None,
            History::Continued | History::Skipped { .. } => self.known.remove(&request.attachment),
        };
        let replaces = match &old {
            Some(attachment) => attachment.stream,
            None => self
                .known
                .remove(&request.attachment)
                .and_then(|a| a.stream),
        };
        let (taken, applied) = old.map_or((0, 0), |a| (a.taken, a.applied));
        self.known.insert(
            request.attachment,
            Attachment {
                principal,
                stream: Some(stream),
                read_only: request.read_only,
                size: request.size,
                attached_at: self.clock,
                taken,
                applied,
            },
        );
        self.forget_the_oldest();
        self.pass_lease(request);
        self.settle_size();
        Admitted {
            history,
            output,
            applied,
            replaces,
        }
    }

    fn history(&self, request: &Attach, principal: &Principal, log: (u64, u64)) -> (History, u64) {
        let (log_start, log_end) = log;
        let Some(resume) = request.resume else {
            return (History::Fresh, log_end);
        };
        let ours = self.known.get(&request.attachment).filter(|known| {
            resume.epoch == self.epoch
                && known.principal == *principal
                && resume.acked <= known.applied
                && known.taken <= resume.next
                && resume.have <= log_end
        });
        match ours {
            None => (History::Differs, log_end),
            Some(_) if resume.have >= log_start => (History::Continued, resume.have),
            Some(_) => (
                History::Skipped {
                    bytes: log_end - resume.have,
                },
                log_end,
            ),
        }
    }

    /// Gives the right to type to a newcomer if nobody has it, if it asks to take over, or
    /// if the holder is the same user at another terminal: the terminal last attached is
    /// the one that the user sits at, and a dead one must not lock its owner out.
    fn pass_lease(&mut self, request: &Attach) {
        if request.read_only {
            if self.writer == Some(request.attachment) {
                self.writer = self.next_writer();
            }
            return;
        }
        let newcomer = &self.known[&request.attachment].principal;
        let free = match self.writer.and_then(|id| self.known.get(&id)) {
            None => true,
            Some(holder) => holder.stream.is_none() || holder.principal == *newcomer,
        };
        if free || request.takeover {
            self.writer = Some(request.attachment);
        }
    }

    /// Takes input from a client.
    pub fn input(&mut self, id: &AttachmentId, offset: u64, length: usize) -> Input {
        let may_type = self.writer == Some(*id);
        let Some(attachment) = self.known.get_mut(id) else {
            return Input::Gap;
        };
        if offset > attachment.taken {
            return Input::Gap;
        }
        let end = offset + length as u64;
        let skip = (attachment.taken - offset).min(length as u64);
        attachment.taken = attachment.taken.max(end);
        if !may_type {
            attachment.applied = attachment.taken;
            return Input::Drop;
        }
        Input::Take {
            skip: skip as usize,
        }
    }

    /// Input that was taken and not yet applied.
    pub fn pending_input(&self, id: &AttachmentId) -> u64 {
        self.known.get(id).map_or(0, |a| a.taken - a.applied)
    }

    /// So many bytes of an attachment's input were written to the terminal.
    pub fn applied(&mut self, id: &AttachmentId, bytes: u64) {
        if let Some(attachment) = self.known.get_mut(id) {
            attachment.applied = (attachment.applied + bytes).min(attachment.taken);
        }
    }

    /// Input of an attachment that was applied.
    pub fn applied_of(&self, id: &AttachmentId) -> u64 {
        self.known.get(id).map_or(0, |a| a.applied)
    }

    /// A client's terminal has another size.
    pub fn resize(&mut self, id: &AttachmentId, size: Winsize) {
        if let Some(attachment) = self.known.get_mut(id) {
            attachment.size = size;
        }
        self.settle_size();
    }

    /// Gives the session another size while nobody is there whose terminal has one.
    /// Returns whether it was taken.
    pub fn set_size(&mut self, size: Winsize) -> bool {
        let is_free = self.writer().is_none();
        if is_free {
            self.size = size;
        }
        is_free
    }

    /// A stream ended. With `forget`, its attachment said goodbye and will not come back.
    pub fn leave(&mut self, id: &AttachmentId, stream: StreamId, forget: bool) {
        let Some(attachment) = self.known.get_mut(id) else {
            return;
        };
        if attachment.stream != Some(stream) {
            return;
        }
        attachment.stream = None;
        if forget {
            self.known.remove(id);
        }
        if self.writer == Some(*id) {
            self.writer = self.next_writer();
        }
        self.settle_size();
    }

    /// The one that attached last of those who are here and may type.
    fn next_writer(&self) -> Option<AttachmentId> {
        self.known
            .iter()
            .filter(|(_, a)| a.stream.is_some() && !a.read_only)
            .max_by_key(|(_, a)| a.attached_at)
            .map(|(id, _)| *id)
    }

    /// The writer's size holds; with no writer the last size stays.
    fn settle_size(&mut self) {
        if let Some(writer) = self.writer.and_then(|id| self.known.get(&id)) {
            self.size = writer.size;
        }
    }

    fn forget_the_oldest(&mut self) {
        while self.known.values().filter(|a| a.stream.is_none()).count() > MAX_REMEMBERED {
            let oldest = self
                .known
                .iter()
                .filter(|(_, a)| a.stream.is_none())
                .min_by_key(|(_, a)| a.attached_at)
                .map(|(id, _)| *id);
            if let Some(id) = oldest {
                self.known.remove(&id);
            }
        }
    }

    /// This life of the egg.
    pub fn epoch(&self) -> EggEpoch {
        self.epoch
    }

    /// The size that holds.
    pub fn size(&self) -> Winsize {
        self.size
    }

    /// Whether this attachment may type.
    pub fn is_writer(&self, id: &AttachmentId) -> bool {
        self.writer == Some(*id)
    }

    /// Whether this stream is the attachment's newest.
    pub fn is_current(&self, id: &AttachmentId, stream: StreamId) -> bool {
        self.known.get(id).is_some_and(|a| a.stream == Some(stream))
    }

    /// Who may type.
    pub fn writer(&self) -> Option<&Principal> {
        self.writer
            .and_then(|id| self.known.get(&id))
            .filter(|a| a.stream.is_some())
            .map(|a| &a.principal)
    }

    /// Streams that are attached.
    pub fn attached(&self) -> usize {
        self.known.values().filter(|a| a.stream.is_some()).count()
    }

    /// Attachments that were cut and may come back.
    pub fn cut_off(&self) -> usize {
        self.known.values().filter(|a| a.stream.is_none()).count()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wt_protocol::rpc::PrincipalKind;
    use wt_protocol::session::Resume;

    use super::*;

    const EPOCH: EggEpoch = EggEpoch::from_bytes([1; 16]);
    const DESK: Winsize = Winsize {
        cols: 200,
        rows: 50,
    };
    const PHONE: Winsize = Winsize { cols: 40, rows: 30 };

    fn user(name: &str) -> Principal {
        Principal {
            kind: PrincipalKind::Client,
            id: name.into(),
        }
    }

    fn id(n: u8) -> AttachmentId {
        AttachmentId::from_bytes([n; 16])
    }

    fn request(n: u8, size: Winsize) -> Attach {
        Attach {
            session: "s".into(),
            attachment: id(n),
            size,
            read_only: false,
            takeover: false,
            resume: None,
        }
    }

    fn resume(next: u64, acked: u64, have: u64) -> Option<Resume> {
        Some(Resume {
            epoch: EPOCH,
            next,
            acked,
            have,
        })
    }

    fn with_one() -> Attachments {
        let mut all = Attachments::new(EPOCH, Winsize::DEFAULT);
        all.attach(&request(1, DESK), user("ann"), StreamId(1), (0, 100));
        all
    }

    #[test]
    fn a_cut_client_goes_on_where_it_stopped_and_input_is_applied_once() {
        let mut all = with_one();
        assert_eq!(all.input(&id(1), 0, 10), Input::Take { skip: 0 });
        all.applied(&id(1), 6);
        all.leave(&id(1), StreamId(1), false);

        let back = Attach {
            resume: resume(10, 0, 60),
            ..request(1, DESK)
        };
        let admitted = all.attach(&back, user("ann"), StreamId(2), (0, 100));

        assert_eq!(
            admitted,
            Admitted {
                history: History::Continued,
                output: 60,
                applied: 6,
                replaces: None
            }
        );
        // The client sends again from `applied`; what was already taken is left out.
        assert_eq!(all.input(&id(1), 6, 4), Input::Take { skip: 4 });
        assert_eq!(all.input(&id(1), 10, 5), Input::Take { skip: 0 });
        assert_eq!(all.input(&id(1), 14, 5), Input::Take { skip: 1 });
    }

    #[test]
    fn output_that_left_the_window_is_skipped_with_its_count() {
        let mut all = with_one();
        all.leave(&id(1), StreamId(1), false);

        let back = Attach {
            resume: resume(0, 0, 100),
            ..request(1, DESK)
        };
        let admitted = all.attach(&back, user("ann"), StreamId(2), (500, 900));

        assert_eq!(admitted.history, History::Skipped { bytes: 800 });
        assert_eq!(admitted.output, 900);
    }

    #[test]
    fn offsets_that_do_not_belong_to_this_egg_or_client_give_a_snapshot() {
        let wrong_epoch = Some(Resume {
            epoch: EggEpoch::from_bytes([9; 16]),
            next: 0,
            acked: 0,
            have: 100,
        });
        let cases = [
            (1, "ann", wrong_epoch),
            (1, "bob", resume(0, 0, 100)),
            (2, "ann", resume(0, 0, 100)),
            (1, "ann", resume(5, 5, 100)),
            (1, "ann", resume(0, 0, 101)),
        ];
        for (attachment, who, resume) in cases {
            let mut all = with_one();
            all.leave(&id(1), StreamId(1), false);

            let back = Attach {
                resume,
                ..request(attachment, DESK)
            };
            let admitted = all.attach(&back, user(who), StreamId(2), (0, 100));

            assert_eq!(admitted.history, History::Differs, "{resume:?} by {who}");
            assert_eq!(admitted.applied, 0);
        }
        let mut twin = with_one();
        twin.leave(&id(1), StreamId(1), false);
        let back = Attach {
            resume: resume(0, 0, 100),
            ..request(1, DESK)
        };
        assert_eq!(
            twin.attach(&back, user("ann"), StreamId(2), (0, 100))
                .history,
            History::Continued
        );
    }

    #[test]
    fn the_newest_stream_of_an_attachment_wins() {
        let mut all = with_one();

        let back = Attach {
            resume: resume(0, 0, 100),
            ..request(1, DESK)
        };
        let admitted = all.attach(&back, user("ann"), StreamId(2), (0, 100));

        assert_eq!(admitted.replaces, Some(StreamId(1)));
        assert!(!all.is_current(&id(1), StreamId(1)));
        all.leave(&id(1), StreamId(1), true);
        assert!(
            all.is_current(&id(1), StreamId(2)),
            "the old stream's end touches nothing"
        );
    }

    #[test]
    fn the_size_follows_the_writer_and_comes_back_when_it_leaves() {
        let mut all = with_one();

        all.attach(&request(2, PHONE), user("ann"), StreamId(2), (0, 0));
        assert_eq!(all.size(), PHONE);
        assert!(all.is_writer(&id(2)));
        all.leave(&id(2), StreamId(2), false);

        assert_eq!(all.size(), DESK);
        assert!(all.is_writer(&id(1)));
        all.leave(&id(1), StreamId(1), true);
        assert_eq!(all.size(), DESK);
        assert_eq!((all.attached(), all.cut_off()), (0, 1));
    }

    #[test]
    fn of_those_who_stay_the_last_to_come_has_the_size_in_whatever_order_others_leave() {
        let sizes = [(100, 30), (90, 28), (50, 20)].map(|(cols, rows)| Winsize { cols, rows });
        for order in [
            [1, 2, 3],
            [1, 3, 2],
            [2, 1, 3],
            [2, 3, 1],
            [3, 1, 2],
            [3, 2, 1],
        ] {
            let mut all = Attachments::new(EPOCH, Winsize::DEFAULT);
            for (n, size) in (1..=3).zip(sizes) {
                all.attach(&request(n, size), user("ann"), StreamId(n.into()), (0, 0));
                assert_eq!(all.size(), size);
            }
            let mut here = vec![1, 2, 3];
            for n in order {
                all.leave(&id(n), StreamId(n.into()), true);
                here.retain(|h| *h != n);
                if let Some(last) = here.last() {
                    assert_eq!(
                        all.size(),
                        sizes[usize::from(*last) - 1],
                        "{order:?}, {n} left"
                    );
                }
            }
        }
    }

    #[test]
    fn another_user_watches_until_taking_over() {
        let mut all = with_one();

        all.attach(&request(2, PHONE), user("bob"), StreamId(2), (0, 0));
        assert!(!all.is_writer(&id(2)));
        assert_eq!(all.input(&id(2), 0, 5), Input::Drop);
        assert_eq!(all.size(), DESK);

        let takes = Attach {
            takeover: true,
            ..request(3, PHONE)
        };
        all.attach(&takes, user("bob"), StreamId(3), (0, 0));
        assert_eq!(all.input(&id(3), 0, 5), Input::Take { skip: 0 });
        assert_eq!(all.input(&id(1), 0, 5), Input::Drop);
    }

    #[test]
    fn a_read_only_client_never_types() {
        let mut all = Attachments::new(EPOCH, Winsize::DEFAULT);

        let watches = Attach {
            read_only: true,
            takeover: true,
            ..request(1, PHONE)
        };
        all.attach(&watches, user("ann"), StreamId(1), (0, 0));

        assert_eq!(all.input(&id(1), 0, 5), Input::Drop);
        assert_eq!(all.size(), Winsize::DEFAULT);
    }

    #[test]
    fn input_that_leaves_a_gap_is_refused() {
        let mut all = with_one();

        assert_eq!(all.input(&id(1), 1, 5), Input::Gap);
        assert_eq!(all.input(&id(7), 0, 5), Input::Gap);
    }

    #[test]
    fn only_so_many_cut_attachments_are_remembered() {
        let mut all = Attachments::new(EPOCH, Winsize::DEFAULT);

        for n in 0..=(MAX_REMEMBERED as u64 + 10) {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&n.to_be_bytes());
            let request = Attach {
                attachment: AttachmentId::from_bytes(bytes),
                ..request(0, DESK)
            };
            all.attach(&request, user("ann"), StreamId(n), (0, 0));
            all.leave(&request.attachment, StreamId(n), false);
        }

        assert_eq!(all.cut_off(), MAX_REMEMBERED + 1);
    }
}
