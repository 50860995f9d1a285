//! The recording of a session: what it printed and when, in one file.
//!
//! Output, sizes and a few marks are recorded; input is not, so that no password that
//! was typed without echo is ever on disk. The file is a header and a row of frames.
//! Each frame stands for itself, with its own length, checksum and compression, so a
//! recording is readable after its egg was killed at any moment: whatever was written
//! last is a whole frame or is left out. A frame waits in memory for [`FLUSH_INTERVAL`]
//! at most.
//!
//! Nothing is synced to the disk: a killed process loses nothing by that, and an fsync
//! each second would wake idle disks. After a power cut the checksums find the end.
//!
//! | part | bytes |
//! |---|---|
//! | header | `WTREC\r\n` and the version 1; start in ms since the Unix epoch (8); columns (2); rows (2); CRC-32 of what precedes (4) |
//! | frame | unpacked length (4); stored length (4); CRC-32 of both and of what is stored (4); what is stored |
//! | unpacked frame | time of its first event in µs; events |
//! | event | kind (1); µs since the event before; length; payload |
//!
//! What is stored is an LZ4 block, or the frame itself where both lengths are equal.
//! Integers are little-endian where their size is given, LEB128 elsewhere. Readers skip
//! kinds that they do not know.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use wt_protocol::session::Winsize;

/// Name of the recording in the folder of a session.
pub const RECORDING_FILE: &str = "recording";

/// Default bytes of one recording: days of an agent's work, and a hundred of them fit on a
/// laptop.
pub const DEFAULT_RECORDING_CAP: u64 = 256 << 20;

/// Smallest cap that may be set: a few screens of the worst kind, and its own end.
pub const MIN_RECORDING_CAP: u64 = 256 << 10;

/// How long output may wait in memory. What was printed a second before a kill must be
/// readable; the other half is for a late timer.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(500);

/// Events that are packed together, in bytes: one read of a terminal. More would compress
/// little better.
const FRAME_SIZE: usize = 64 << 10;

/// Largest unpacked frame: the event that fills it may be as long as a mark.
const MAX_FRAME: usize = FRAME_SIZE + 1024;

/// Bytes of the cap that are kept for saying why the recording stops, and how the session
/// ended.
const END_ROOM: u64 = 256;

/// How often a disk that refused output is asked to take the mark that says so.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Bytes of the name in a mark; what is longer is cut.
const MAX_MARK_NAME: usize = 256;

const MAGIC: &[u8; 7] = b"WTREC\r\n";
const VERSION: u8 = 1;
const HEADER: usize = 24;
const FRAME_HEAD: usize = 12;

const OUTPUT: u8 = 0;
const RESIZE: u8 = 1;
const ATTACHED: u8 = 2;
const DETACHED: u8 = 3;
const EXITED: u8 = 4;
const STOPPED: u8 = 5;

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Time since the session started.
    pub at: Duration,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The program printed something.
    Output(Vec<u8>),
    /// The terminal has another size.
    Resize(Winsize),
    /// A point worth finding.
    Mark(Mark),
}

/// A point in a recording worth finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// A client attached.
    Attached {
        /// Who it was.
        by: String,
    },
    /// A client left.
    Detached {
        /// Who it was.
        by: String,
    },
    /// The program ended.
    Exited {
        /// Its exit status, if it ended by itself.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// Output was recorded up to here and no further.
    Stopped(Stop),
}

/// Why a recording stopped before its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It reached its cap.
    Cap,
    /// The disk took no more.
    Disk,
}

/// Writes the recording of one session.
///
/// It never fails and never waits: when the file takes no more, it stops, and
/// [`Self::note`] says so. Times are given by the caller, as time since the session
/// started; one that lies before the last is taken as the last. One thread owns it.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    cap: u64,
    /// Length of the file up to the end of its last whole frame.
    written: u64,
    /// The frame that is being filled.
    frame: Vec<u8>,
    /// Where frames are packed.
    packed: Vec<u8>,
    /// Time of the newest event.
    newest: Duration,
    flush_at: Option<Duration>,
    /// Why it stopped, in words.
    stopped: Option<String>,
}

impl Recorder {
    /// Makes the file (0600), which must not exist.
    ///
    /// `cap` is the most bytes that the file will have, at least [`MIN_RECORDING_CAP`].
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, size: Winsize, cap: u64, started_at_ms: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let header = header(size, started_at_ms);
        file.write_all_at(&header, 0)?;
        Ok(Self {
            file,
            cap: cap.max(MIN_RECORDING_CAP),
            written: header.len() as u64,
            frame: Vec::new(),
            packed: Vec::new(),
            newest: Duration::ZERO,
            flush_at: None,
            stopped: None,
        })
    }

    /// Records what the program printed.
    pub fn output(&mut self, at: Duration, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.stopped.is_none() {
            let room = FRAME_SIZE.saturating_sub(self.frame.len()).max(1);
            let (part, rest) = bytes.split_at(bytes.len().min(room));
            self.push(at, OUTPUT, part);
            bytes = rest;
        }
    }

    /// Records that the terminal has another size.
    pub fn resize(&mut self, at: Duration, size: Winsize) {
        if self.stopped.is_none() {
            let mut payload = Vec::new();
            put_int(&mut payload, u64::from(size.cols));
            put_int(&mut payload, u64::from(size.rows));
            self.push(at, RESIZE, &payload);
        }
    }

    /// Records a mark. The end of the program is recorded even after the recording stopped,
    /// and is in the file at once.
    pub fn mark(&mut self, at: Duration, mark: &Mark) {
        let is_end = matches!(mark, Mark::Exited { .. });
        if self.stopped.is_none() || is_end {
            let (kind, payload) = encode_mark(mark);
            self.push(at, kind, &payload);
        }
        if is_end {
            self.flush();
        }
    }

    /// When [`Self::flush_due`] wants to be called; never while nothing waits, so that an
    /// idle session needs no timer.
    pub fn due(&self) -> Option<Duration> {
        self.flush_at
    }

    /// Writes what has waited for long enough.
    pub fn flush_due(&mut self, now: Duration) {
        if self.flush_at.is_some_and(|due| now >= due) {
            self.newest = self.newest.max(now);
            self.flush();
        }
    }

    /// What a user should know: why the recording stopped, if it did.
    pub fn note(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Writes what is left and closes the file. The answer is the last [`Self::note`].
    pub fn finish(mut self) -> Option<String> {
        self.flush();
        self.stopped.take()
    }

    fn push(&mut self, at: Duration, kind: u8, payload: &[u8]) {
        let at = self.newest.max(at);
        if self.frame.is_empty() {
            self.newest = at;
            self.flush_at = Some(at + FLUSH_INTERVAL);
            put_int(&mut self.frame, micros(at));
        }
        let since = micros(at) - micros(self.newest);
        self.newest = at;
        self.frame.push(kind);
        put_int(&mut self.frame, since);
        put_int(&mut self.frame, payload.len() as u64);
        self.frame.extend_from_slice(payload);
        if self.frame.len() >= FRAME_SIZE {
            self.flush();
        } else {
            self.flush_due(at);
        }
    }

    /// Appends the frame to the file, if cap and disk allow it.
    fn flush(&mut self) {
        if self.frame.is_empty() {
            return;
        }
        pack(&self.frame, &mut self.packed);
        let end = self.written + self.packed.len() as u64;
        let limit = match self.stopped {
            None => self.cap - END_ROOM,
            Some(_) => self.cap,
        };
        if end > limit {
            let note = format!(
                "the recording stopped at its limit of {} MiB",
                self.cap as f64 / f64::from(1 << 20)
            );
            return self.stop(Stop::Cap, note);
        }
        match self.file.write_all_at(&self.packed, self.written) {
            Ok(()) => {
                self.written = end;
                self.frame.clear();
                self.flush_at = None;
            }
            Err(error) => {
                // Half a frame would hide what is appended when there is room again.
                let _ = self.file.set_len(self.written);
                if self.stopped.is_some() {
                    self.flush_at = Some(self.newest + RETRY_INTERVAL);
                } else {
                    let note = format!("the recording stopped, its file took no more: {error}");
                    self.stop(Stop::Disk, note);
                }
            }
        }
    }

    /// Drops what the file did not take, and stops for good with a mark that says so.
    fn stop(&mut self, why: Stop, note: String) {
        self.frame.clear();
        self.flush_at = None;
        if self.stopped.is_none() {
            self.stopped = Some(note);
            let (kind, payload) = encode_mark(&Mark::Stopped(why));
            self.push(self.newest, kind, &payload);
            self.flush();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file could not be read.
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
    /// The file is something else, or its egg was killed before it wrote anything.
    #[error("this is not a recording")]
    Foreign,
    /// A later version wrote it.
    #[error("the recording has version {0}, which is not known here")]
    Version(u8),
}

/// How a recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With the end of its session.
    Exited,
    /// Without one: the session goes on, or its egg was killed.
    Open,
    /// Before its session.
    Stopped(Stop),
    /// In the middle of a frame: the egg was killed while it wrote, the file is damaged, or
    /// a living egg is writing at this moment.
    Torn {
        /// Bytes that could not be read.
        bytes: u64,
    },
}

/// Reads a recording, event by event.
///
/// What is torn ends the events and is no error; [`Self::ending`] tells.
#[derive(Debug)]
pub struct Recording<R = BufReader<File>> {
    source: R,
    size: Winsize,
    started_at_ms: u64,
    /// The unpacked frame, where its next event stands, and the time of the one before.
    frame: Vec<u8>,
    next: usize,
    time: Duration,
    /// Length of the file up to the end of this frame.
    position: u64,
    ending: Option<Ending>,
    exited: bool,
    stopped: Option<Stop>,
}

impl Recording {
    /// Opens the recording in this file.
    ///
    /// # Errors
    /// A file that cannot be read or is no recording.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Self::new(BufReader::new(File::open(path)?))
    }
}

impl<R: Read + Seek> Recording<R> {
    /// Reads a recording from its first byte on.
    ///
    /// # Errors
    /// A source that cannot be read or is no recording.
    pub fn new(mut source: R) -> Result<Self, RecordingError> {
        let mut header = [0; HEADER];
        if read_up_to(&mut source, &mut header)? < HEADER || !header.starts_with(MAGIC) {
            return Err(RecordingError::Foreign);
        }
        if header[7] != VERSION {
            return Err(RecordingError::Version(header[7]));
        }
        if crc32(&[&header[..20]]) != le_u32(&header[20..]) {
            return Err(RecordingError::Foreign);
        }
        let started_at_ms = u64::from_le_bytes(header[8..16].try_into().expect("8 bytes"));
        let side = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        Ok(Self {
            source,
            size: Winsize::from_reported(side(16), side(18)),
            started_at_ms,
            frame: Vec::new(),
            next: 0,
            time: Duration::ZERO,
            position: HEADER as u64,
            ending: None,
            exited: false,
            stopped: None,
        })
    }

    /// The size of the terminal when the session started.
    pub fn size(&self) -> Winsize {
        self.size
    }

    /// When the session started, in milliseconds since the Unix epoch.
    pub fn started_at_ms(&self) -> u64 {
        self.started_at_ms
    }

    /// How the recording ends. None before the last event was read.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Whether the session printed more than what is here, as far as is known once the last
    /// event was read.
    pub fn truncated(&self) -> bool {
        matches!(self.ending, Some(Ending::Stopped(_) | Ending::Torn { .. }))
    }

    /// Goes back to the first event.
    ///
    /// # Errors
    /// What the system says.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.source.seek(SeekFrom::Start(HEADER as u64))?;
        self.frame.clear();
        self.next = 0;
        self.time = Duration::ZERO;
        self.position = HEADER as u64;
        self.ending = None;
        self.exited = false;
        self.stopped = None;
        Ok(())
    }

    /// The next event; none at the end.
    ///
    /// # Errors
    /// What the system says.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        loop {
            while self.next < self.frame.len() {
                let Some((since, kind)) = take_event(&self.frame, &mut self.next) else {
                    self.end_torn()?;
                    return Ok(None);
                };
                self.time = self.time.saturating_add(since);
                if let Some(kind) = kind {
                    self.note_mark(&kind);
                    return Ok(Some(Event {
                        at: self.time,
                        kind,
                    }));
                }
            }
            if self.ending.is_some() || !self.next_frame()? {
                return Ok(None);
            }
        }
    }

    fn note_mark(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Mark(Mark::Exited { .. }) => self.exited = true,
            EventKind::Mark(Mark::Stopped(why)) => self.stopped = Some(*why),
            EventKind::Output(_) | EventKind::Resize(_) | EventKind::Mark(_) => {}
        }
    }

    /// Reads the next frame; at the end of what is whole it sets how the recording ends.
    fn next_frame(&mut self) -> io::Result<bool> {
        self.frame.clear();
        self.next = 0;
        let mut head = [0; FRAME_HEAD];
        let got = read_up_to(&mut self.source, &mut head)?;
        if got == 0 {
            self.ending = Some(match self.stopped {
                Some(why) => Ending::Stopped(why),
                None if self.exited => Ending::Exited,
                None => Ending::Open,
            });
            return Ok(false);
        }
        let length = le_u32(&head[..4]) as usize;
        let stored_length = le_u32(&head[4..8]) as usize;
        if got < FRAME_HEAD || length > MAX_FRAME || stored_length > length {
            return self.end_torn();
        }
        let mut stored = vec![0; stored_length];
        let whole = read_up_to(&mut self.source, &mut stored)? == stored_length
            && crc32(&[&head[..8], &stored]) == le_u32(&head[8..])
            && self.unpack(stored, length);
        let start = take_int(&self.frame, &mut self.next);
        let (true, Some(start)) = (whole, start) else {
            return self.end_torn();
        };
        self.position += (FRAME_HEAD + stored_length) as u64;
        // Frames overlap in a damaged file alone; time never runs back for who plays it.
        self.time = self.time.max(Duration::from_micros(start));
        Ok(true)
    }

    fn unpack(&mut self, stored: Vec<u8>, length: usize) -> bool {
        if stored.len() == length {
            self.frame = stored;
            return true;
        }
        self.frame.resize(length, 0);
        lz4_flex::block::decompress_into(&stored, &mut self.frame).is_ok_and(|n| n == length)
    }

    fn end_torn(&mut self) -> io::Result<bool> {
        self.frame.clear();
        self.next = 0;
        let end = self.source.seek(SeekFrom::End(0))?;
        let bytes = end.saturating_sub(self.position);
        self.ending = Some(Ending::Torn { bytes });
        Ok(false)
    }
}

impl<R: Read + Seek> Iterator for Recording<R> {
    type Item = io::Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

fn header(size: Winsize, started_at_ms: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER);
    out.extend_from_slice(MAGIC);
    out.push(VERSION);
    out.extend_from_slice(&started_at_ms.to_le_bytes());
    out.extend_from_slice(&size.cols.to_le_bytes());
    out.extend_from_slice(&size.rows.to_le_bytes());
    let crc = crc32(&[&out]);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Makes a frame as it stands in the file.
fn pack(frame: &[u8], out: &mut Vec<u8>) {
    let most = lz4_flex::block::get_maximum_output_size(frame.len());
    out.clear();
    out.resize(FRAME_HEAD + most, 0);
    let stored = match lz4_flex::block::compress_into(frame, &mut out[FRAME_HEAD..]) {
        Ok(n) if n < frame.len() => n,
        // It is stored as it is, as when it does not get smaller.
        Ok(_) | Err(_) => {
            out[FRAME_HEAD..FRAME_HEAD + frame.len()].copy_from_slice(frame);
            frame.len()
        }
    };
    out.truncate(FRAME_HEAD + stored);
    out[..4].copy_from_slice(&(frame.len() as u32).to_le_bytes());
    out[4..8].copy_from_slice(&(stored as u32).to_le_bytes());
    let crc = crc32(&[&out[..8], &out[FRAME_HEAD..]]);
    out[8..FRAME_HEAD].copy_from_slice(&crc.to_le_bytes());
}

fn encode_mark(mark: &Mark) -> (u8, Vec<u8>) {
    let mut payload = Vec::new();
    let kind = match mark {
        Mark::Attached { by } => {
            payload.extend_from_slice(cut(by).as_bytes());
            ATTACHED
        }
        Mark::Detached { by } => {
            payload.extend_from_slice(cut(by).as_bytes());
            DETACHED
        }
        Mark::Exited { code, signal } => {
            for value in [code, signal] {
                payload.push(u8::from(value.is_some()));
                payload.extend_from_slice(&value.unwrap_or(0).to_le_bytes());
            }
            EXITED
        }
        Mark::Stopped(why) => {
            payload.push(match why {
                Stop::Cap => 0,
                Stop::Disk => 1,
            });
            STOPPED
        }
    };
    (kind, payload)
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_MARK_NAME)]
}

/// Takes the event at `next`: the time since the one before, and what it is if this build
/// knows its kind.
fn take_event(frame: &[u8], next: &mut usize) -> Option<(Duration, Option<EventKind>)> {
    let kind = *frame.get(*next)?;
    *next += 1;
    let since = Duration::from_micros(take_int(frame, next)?);
    let length = usize::try_from(take_int(frame, next)?).ok()?;
    let payload = frame.get(*next..next.checked_add(length)?)?;
    *next += length;
    let kind = match kind {
        OUTPUT => Some(EventKind::Output(payload.to_vec())),
        RESIZE => Some(EventKind::Resize(take_size(payload)?)),
        ATTACHED => Some(EventKind::Mark(Mark::Attached {
            by: String::from_utf8_lossy(payload).into_owned(),
        })),
        DETACHED => Some(EventKind::Mark(Mark::Detached {
            by: String::from_utf8_lossy(payload).into_owned(),
        })),
        EXITED => Some(EventKind::Mark(Mark::Exited {
            code: take_status(payload.get(..5)?),
            signal: take_status(payload.get(5..10)?),
        })),
        STOPPED => Some(EventKind::Mark(Mark::Stopped(match payload.first()? {
            0 => Stop::Cap,
            _ => Stop::Disk,
        }))),
        _ => None,
    };
    Some((since, kind))
}

fn take_size(payload: &[u8]) -> Option<Winsize> {
    let mut at = 0;
    let mut side = || u16::try_from(take_int(payload, &mut at)?).ok();
    Some(Winsize::from_reported(side()?, side()?))
}

/// A status or nothing: one byte that tells which, and four of the number.
fn take_status(bytes: &[u8]) -> Option<i32> {
    let number = i32::from_le_bytes(bytes[1..5].try_into().expect("4 bytes"));
    (bytes[0] != 0).then_some(number)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn put_int(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_int(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn le_u32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes"))
}

/// Reads until the buffer is full or the source ends.
fn read_up_to(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// CRC-32 as in zip and PNG (polynomial 0x04C11DB7, reflected).
fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().copied().flatten() {
        crc = CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    }
    !crc
}

static CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Cursor;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    const SIZE: Winsize = Winsize { cols: 80, rows: 24 };

    #[test]
    fn what_was_recorded_is_read_back_with_its_times() {
        let (dir, mut recorder) = start(DEFAULT_RECORDING_CAP);
        let wide = Winsize {
            cols: 300,
            rows: 70,
        };
        let by = || "ann".to_owned();
        let exit = Mark::Exited {
            code: None,
            signal: Some(15),
        };

        recorder.mark(ms(0), &Mark::Attached { by: by() });
        recorder.output(ms(1), b"$ ");
        recorder.resize(ms(900), wide);
        recorder.output(us(900_001), b"\xff\x00\x1b[m");
        recorder.mark(ms(4_000), &Mark::Detached { by: by() });
        recorder.mark(ms(90_000_000), &exit);
        assert_eq!(recorder.finish(), None);

        let mut recording = Recording::open(&path(&dir)).unwrap();
        assert_eq!(recording.size(), SIZE);
        assert_eq!(recording.started_at_ms(), 1_700_000_000_123);
        assert_eq!(
            events(&mut recording),
            [
                event(ms(0), EventKind::Mark(Mark::Attached { by: by() })),
                event(ms(1), output(b"$ ")),
                event(ms(900), EventKind::Resize(wide)),
                event(us(900_001), output(b"\xff\x00\x1b[m")),
                event(ms(4_000), EventKind::Mark(Mark::Detached { by: by() })),
                event(ms(90_000_000), EventKind::Mark(exit)),
            ]
        );
        assert_eq!(recording.ending(), Some(Ending::Exited));
        assert!(!recording.truncated());
    }

    #[test]
    fn a_recording_is_for_its_owner_alone_and_replaces_nothing() {
        let (dir, recorder) = start(DEFAULT_RECORDING_CAP);
        drop(recorder);

        let mode = std::fs::metadata(path(&dir)).unwrap().permissions().mode();
        let again = Recorder::create(&path(&dir), SIZE, DEFAULT_RECORDING_CAP, 0);

        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_was_printed_a_second_before_a_kill_is_readable() {
        let (dir, mut recorder) = start(DEFAULT_RECORDING_CAP);
        assert_eq!(recorder.due(), None, "nothing waits, so no timer runs");

        recorder.output(ms(10_000), b"early");
        let due = recorder.due().unwrap();
        assert!(due <= ms(10_000) + FLUSH_INTERVAL);
        recorder.flush_due(due - ms(1));
        assert_eq!(events(&mut copy(&dir)), [], "it waits until then");
        recorder.flush_due(due);
        // A busy program needs no timer: its own output carries the time.
        recorder.output(ms(11_000), b"middle");
        recorder.output(ms(11_999), b"late");

        // What a kill leaves behind is what is in the file.
        let mut after_kill = copy(&dir);
        assert_eq!(
            events(&mut after_kill),
            [
                event(ms(10_000), output(b"early")),
                event(ms(11_000), output(b"middle")),
                event(ms(11_999), output(b"late")),
            ]
        );
        assert_eq!(after_kill.ending(), Some(Ending::Open));
        assert_eq!(recorder.due(), None);
    }

    #[test]
    fn a_file_cut_at_any_byte_gives_every_frame_before_the_cut() {
        let (dir, mut recorder) = start(DEFAULT_RECORDING_CAP);
        let mut ends = vec![HEADER];
        let mut all = Vec::new();
        for n in 0..6_u64 {
            let at = ms(n * 1_000);
            let text = format!("line {n} {}\r\n", "ab".repeat(20 * n as usize));
            recorder.output(at, text.as_bytes());
            recorder.flush_due(at + FLUSH_INTERVAL);
            all.push(event(at, output(text.as_bytes())));
            ends.push(std::fs::metadata(path(&dir)).unwrap().len() as usize);
        }
        drop(recorder);
        let whole = std::fs::read(path(&dir)).unwrap();
        assert_eq!(ends.last(), Some(&whole.len()));

        for length in 0..=whole.len() {
            let cut = Recording::new(Cursor::new(&whole[..length]));
            if length < HEADER {
                assert!(matches!(cut, Err(RecordingError::Foreign)), "{length}");
                continue;
            }
            let frames = ends.iter().filter(|end| **end <= length).count() - 1;
            let mut cut = cut.unwrap();
            assert_eq!(events(&mut cut), all[..frames], "cut at {length}");
            let lost = length - ends[frames];
            assert_eq!(cut.truncated(), lost > 0, "cut at {length}");
            if lost > 0 {
                let bytes = lost as u64;
                assert_eq!(cut.ending(), Some(Ending::Torn { bytes }));
            }
        }
    }

    #[test]
    fn a_damaged_byte_ends_the_events_and_never_changes_one() {
        let (dir, mut recorder) = start(DEFAULT_RECORDING_CAP);
        let mut all = Vec::new();
        for n in 0..3 {
            let at = ms(n * 1_000);
            let text = format!("line {n}, {n}, {n}, {n}, {n}, {n}, {n}\r\n");
            recorder.output(at, text.as_bytes());
            recorder.flush_due(at + FLUSH_INTERVAL);
            all.push(event(at, output(text.as_bytes())));
        }
        drop(recorder);
        let whole = std::fs::read(path(&dir)).unwrap();
        assert_eq!(
            events(&mut Recording::new(Cursor::new(&whole)).unwrap()),
            all
        );

        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let Ok(mut recording) = Recording::new(Cursor::new(&damaged)) else {
                    assert!(at < HEADER, "byte {at}");
                    continue;
                };
                let read = events(&mut recording);
                assert!(read.len() < all.len(), "byte {at} bit {bit}");
                assert_eq!(read, all[..read.len()], "byte {at} bit {bit}");
                assert!(recording.truncated(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn what_is_no_recording_is_refused_by_name() {
        let read = |bytes: &[u8]| Recording::new(Cursor::new(bytes.to_vec())).unwrap_err();
        let mut later = header(SIZE, 0);
        later[7] = 9;

        assert!(matches!(read(b""), RecordingError::Foreign));
        assert!(matches!(read(&[b'x'; 100]), RecordingError::Foreign));
        assert!(matches!(read(&later), RecordingError::Version(9)));
        assert!(Recording::new(Cursor::new(header(SIZE, 0))).is_ok());
    }

    #[test]
    fn kinds_of_a_later_version_are_skipped() {
        let mut file = header(SIZE, 0);
        let mut frame = vec![5, 200, 7, 3, b'n', b'e', b'w', OUTPUT, 1, 2, b'h', b'i'];
        let mut packed = Vec::new();
        pack(&frame, &mut packed);
        file.extend_from_slice(&packed);
        // Bytes that no event could be, though the checksum is right.
        frame.truncate(frame.len() - 1);
        pack(&frame, &mut packed);
        file.extend_from_slice(&packed);

        let mut recording = Recording::new(Cursor::new(file)).unwrap();

        assert_eq!(events(&mut recording), [event(us(13), output(b"hi"))]);
        assert!(recording.truncated());
    }

    #[test]
    fn a_hundred_megabytes_of_output_are_read_back_whole() {
        let (dir, mut recorder) = start(DEFAULT_RECORDING_CAP);
        let chunk = log_lines(1 << 20);
        let total = 100 * chunk.len();
        for n in 0..100 {
            recorder.output(ms(n * 10), &chunk);
        }
        assert_eq!(recorder.finish(), None);
        let length = std::fs::metadata(path(&dir)).unwrap().len();
        assert!(length < total as u64 / 3, "{length} bytes of {total}");

        let mut seen = 0;
        for event in Recording::open(&path(&dir)).unwrap() {
            let event = event.unwrap();
            let EventKind::Output(bytes) = event.kind else {
                panic!("nothing else was recorded");
            };
            assert_eq!(event.at, ms((seen / chunk.len() * 10) as u64));
            let from = seen % chunk.len();
            assert!(bytes == chunk[from..from + bytes.len()], "at {seen}");
            seen += bytes.len();
        }
        assert_eq!(seen, total);
    }

    #[test]
    fn at_its_cap_a_recording_stops_with_a_mark_and_a_note() {
        let cap = MIN_RECORDING_CAP;
        let (dir, mut recorder) = start(cap);
        let printed = noise(1 << 20);

        for (n, chunk) in printed.chunks(5_000).enumerate() {
            recorder.output(ms(n as u64), chunk);
            recorder.flush_due(ms(n as u64));
        }
        let note = recorder.note().unwrap().to_owned();
        recorder.resize(ms(9_000), SIZE);
        recorder.mark(ms(9_000), &Mark::Attached { by: "ann".into() });
        let exit = Mark::Exited {
            code: Some(3),
            signal: None,
        };
        recorder.mark(ms(9_999), &exit);
        assert_eq!(recorder.due(), None);
        assert_eq!(recorder.finish(), Some(note.clone()));

        assert_eq!(note, "the recording stopped at its limit of 0.25 MiB");
        assert!(std::fs::metadata(path(&dir)).unwrap().len() <= cap);
        let mut recording = Recording::open(&path(&dir)).unwrap();
        let events = events(&mut recording);
        let (before, end) = events.split_at(events.len() - 2);
        assert_eq!(end[0].kind, EventKind::Mark(Mark::Stopped(Stop::Cap)));
        assert_eq!(end[1], event(ms(9_999), EventKind::Mark(exit)));
        let kept = printed_by(before);
        assert!(kept.len() as u64 > cap - 2 * FRAME_SIZE as u64);
        assert_eq!(kept, printed[..kept.len()]);
        assert_eq!(recording.ending(), Some(Ending::Stopped(Stop::Cap)));
        assert!(recording.truncated());
    }

    #[test]
    fn below_its_cap_the_same_output_leaves_no_note() {
        let (dir, mut recorder) = start(4 << 20);
        let printed = noise(1 << 20);

        for (n, chunk) in printed.chunks(5_000).enumerate() {
            recorder.output(ms(n as u64), chunk);
        }
        assert_eq!(recorder.finish(), None);

        let mut recording = Recording::open(&path(&dir)).unwrap();
        assert_eq!(printed_by(&events(&mut recording)), printed);
        assert!(!recording.truncated());
    }

    #[test]
    fn a_full_disk_stops_the_recording_and_its_mark_comes_when_there_is_room() {
        let (dir, mut recorder) = start(DEFAULT_RECORDING_CAP);
        recorder.output(ms(0), b"before");
        recorder.flush_due(FLUSH_INTERVAL);
        let file = std::mem::replace(&mut recorder.file, full_disk());

        recorder.output(ms(1_000), b"refused");
        recorder.flush_due(ms(2_000));
        recorder.output(ms(3_000), b"dropped");
        let note = recorder.note().unwrap();
        assert!(note.contains("No space left on device"), "{note}");
        let retry = recorder.due().unwrap();
        assert!(retry > ms(10_000), "a full disk is not asked all the time");
        recorder.flush_due(retry);
        assert!(recorder.due().unwrap() > retry);
        recorder.file = file;
        recorder.flush_due(recorder.due().unwrap());
        assert_eq!(recorder.due(), None);
        let exit = Mark::Exited {
            code: Some(0),
            signal: None,
        };
        recorder.mark(ms(900_000), &exit);
        assert!(recorder.finish().is_some());

        let mut recording = Recording::open(&path(&dir)).unwrap();
        assert_eq!(
            events(&mut recording),
            [
                event(ms(0), output(b"before")),
                event(ms(2_000), EventKind::Mark(Mark::Stopped(Stop::Disk))),
                event(ms(900_000), EventKind::Mark(exit)),
            ]
        );
        assert_eq!(recording.ending(), Some(Ending::Stopped(Stop::Disk)));
    }

    #[test]
    fn a_clock_that_goes_back_does_not_take_events_with_it() {
        let (dir, mut recorder) = start(DEFAULT_RECORDING_CAP);
        recorder.output(ms(100), b"a");
        recorder.output(ms(50), b"b");
        drop(recorder);

        assert_eq!(
            events(&mut copy(&dir)),
            [event(ms(100), output(b"a")), event(ms(100), output(b"b"))]
        );
    }

    #[test]
    fn a_rewound_recording_gives_the_same_events_again() {
        let (dir, mut recorder) = start(DEFAULT_RECORDING_CAP);
        recorder.output(ms(100), &noise(200_000));
        recorder.mark(ms(200), &Mark::Stopped(Stop::Cap));
        drop(recorder);

        let mut recording = Recording::open(&path(&dir)).unwrap();
        recording.next_event().unwrap().unwrap();
        recording.rewind().unwrap();
        let first = events(&mut recording);
        assert!(recording.truncated());
        recording.rewind().unwrap();
        assert!(!recording.truncated());

        assert_eq!(events(&mut recording), first);
        assert_eq!(printed_by(&first), noise(200_000));
    }

    #[test]
    fn the_checksum_is_the_common_one() {
        assert_eq!(crc32(&[b"1234", b"56789"]), 0xcbf4_3926);
    }

    fn start(cap: u64) -> (tempfile::TempDir, Recorder) {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&path(&dir), SIZE, cap, 1_700_000_000_123).unwrap();
        (dir, recorder)
    }

    fn path(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join(RECORDING_FILE)
    }

    fn copy(dir: &tempfile::TempDir) -> Recording<Cursor<Vec<u8>>> {
        Recording::new(Cursor::new(std::fs::read(path(dir)).unwrap())).unwrap()
    }

    /// Takes reads and refuses writes with "no space left".
    fn full_disk() -> File {
        OpenOptions::new().write(true).open("/dev/full").unwrap()
    }

    fn events<R: Read + Seek>(recording: &mut Recording<R>) -> Vec<Event> {
        recording.map(Result::unwrap).collect()
    }

    fn event(at: Duration, kind: EventKind) -> Event {
        Event { at, kind }
    }

    fn output(bytes: &[u8]) -> EventKind {
        EventKind::Output(bytes.to_vec())
    }

    fn printed_by(events: &[Event]) -> Vec<u8> {
        let outputs = events.iter().filter_map(|event| match &event.kind {
            EventKind::Output(bytes) => Some(bytes.as_slice()),
            EventKind::Resize(_) | EventKind::Mark(_) => None,
        });
        outputs.collect::<Vec<_>>().concat()
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Bytes that no compression makes smaller.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        });
        next.take(length).collect()
    }

    /// What a build prints, about.
    fn log_lines(length: usize) -> Vec<u8> {
        let mut text = String::new();
        let mut n = 0_u32;
        while text.len() < length {
            n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text += &format!(
                "   Compiling \x1b[32munit-{:04}\x1b[0m v1.{}.0\r\n",
                n >> 20,
                n >> 28
            );
        }
        text.into_bytes()
    }
}
