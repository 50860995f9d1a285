//! The output of a session, kept in files by byte offset.
//!
//! The log is a row of segment files, each named by the offset of its first byte. New
//! bytes go to the newest; the oldest is dropped once the rest holds the whole window.
//! Because the name and the length say everything, a log is readable after its egg
//! was killed at any moment.
//!
//! When the disk is full, segments are kept in memory instead, up to a small cap, and
//! the next segment tries the disk again.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Default bytes of output that a session keeps: minutes of a flood, weeks of a shell.
pub const DEFAULT_OUTPUT_WINDOW: u64 = 64 << 20;

/// Smallest window that may be set: a full-screen program's repaint many times over.
pub const MIN_OUTPUT_WINDOW: u64 = 256 << 10;

/// Largest window that may be set: offsets, reads and clean-up are tried up to here.
pub const MAX_OUTPUT_WINDOW: u64 = 16 << 30;

/// Output kept in memory while the disk is full, in bytes.
const MEMORY_WINDOW: u64 = 1 << 20;

/// Parts into which the window is cut. Each is an open file, and a process may have 1,024 of
/// those (getrlimit(2), the usual soft `RLIMIT_NOFILE`), so it is not the size of a part
/// that is fixed.
const SEGMENTS: u64 = 16;

/// Bytes of one segment in memory: how often a full disk is tried again.
const MEMORY_SEGMENT: u64 = 64 << 10;

/// Output that is kept of a session that ended, in bytes. A hundred of them cost 400 MB at most.
pub const ENDED_OUTPUT: u64 = 4 << 20;

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first byte.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The kept output of one session.
#[derive(Debug)]
pub struct OutputLog {
    folder: PathBuf,
    window: u64,
    segment_size: u64,
    segments: VecDeque<Segment>,
    end: u64,
    disk_full: bool,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    length: u64,
    store: Store,
}

#[derive(Debug)]
enum Store {
    File { file: File, path: PathBuf },
    Memory(Vec<u8>),
}

impl OutputLog {
    /// Makes the log of a session that starts, in a folder of its own.
    ///
    /// `window` is clamped to [`MIN_OUTPUT_WINDOW`]..=[`MAX_OUTPUT_WINDOW`].
    ///
    /// # Errors
    /// When the folder cannot be made. A full disk later is no error.
    pub fn create(folder: &Path, window: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let window = window.clamp(MIN_OUTPUT_WINDOW, MAX_OUTPUT_WINDOW);
        Ok(Self {
            folder: folder.to_owned(),
            window,
            segment_size: (window / SEGMENTS).max(64 << 10),
            segments: VecDeque::new(),
            end: 0,
            disk_full: false,
        })
    }

    /// Opens the log of a session whose egg is gone, for reading.
    ///
    /// # Errors
    /// What the system says. A missing folder is an empty log.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let mut segments = Vec::new();
        let entries = match fs::read_dir(folder) {
            Ok(entries) => Some(entries),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        for entry in entries.into_iter().flatten() {
            let path = entry?.path();
            let Some(start) = segment_start(&path) else {
                continue;
            };
            let file = File::open(&path)?;
            let length = file.metadata()?.len();
            segments.push(Segment {
                start,
                length,
                store: Store::File { file, path },
            });
        }
        segments.sort_by_key(|s| s.start);
        // A gap means that memory held what came between; only what follows it is whole.
        let whole_from = segments
            .windows(2)
            .rposition(|pair| pair[0].start + pair[0].length != pair[1].start)
            .map_or(0, |gap| gap + 1);
        let segments: VecDeque<Segment> = segments.drain(whole_from..).collect();
        let end = segments.back().map_or(0, |s| s.start + s.length);
        Ok(Self {
            folder: folder.to_owned(),
            window: MAX_OUTPUT_WINDOW,
            segment_size: 16 << 20,
            segments,
            end,
            disk_full: false,
        })
    }

    /// Offset of the oldest byte that is kept.
    pub fn start(&self) -> u64 {
        self.segments.front().map_or(self.end, |s| s.start)
    }

    /// Offset after the newest byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether output is kept in memory because the disk refused it.
    pub fn is_disk_full(&self) -> bool {
        self.disk_full
    }

    /// Adds output. Never fails: what the disk refuses is kept in memory.
    pub fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.room_in_last();
            if room == 0 {
                self.push_segment();
                continue;
            }
            let part = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
            let last = self
                .segments
                .back_mut()
                .expect("a segment with room exists");
            if last.write(part).is_ok() {
                self.end += part.len() as u64;
                bytes = &bytes[part.len()..];
                self.drop_old();
            } else {
                self.disk_full = true;
                self.segments.push_back(Segment::in_memory(self.end));
            }
        }
    }

    /// Reads at most `max` bytes from `from` on, or from the oldest kept byte if that is later.
    ///
    /// The piece is empty at the end of the log, and may be shorter than asked anywhere.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, from: u64, max: usize) -> io::Result<Piece> {
        let offset = from.max(self.start()).min(self.end);
        let index = self
            .segments
            .partition_point(|s| s.start + s.length <= offset);
        let Some(segment) = self.segments.get(index) else {
            return Ok(Piece {
                offset,
                bytes: Vec::new(),
            });
        };
        let within = offset - segment.start;
        let length = (segment.length - within).min(max as u64) as usize;
        let bytes = match &segment.store {
            Store::File { file, .. } => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, within)?;
                bytes
            }
            Store::Memory(kept) => kept[within as usize..within as usize + length].to_vec(),
        };
        Ok(Piece { offset, bytes })
    }

    /// Drops all but the newest `keep` bytes, rounded up to whole segments.
    pub fn shrink(&mut self, keep: u64) {
        self.window = keep;
        self.drop_old();
    }

    fn room_in_last(&self) -> u64 {
        self.segments.back().map_or(0, |last| match last.store {
            Store::File { .. } => self.segment_size.saturating_sub(last.length),
            Store::Memory(_) => MEMORY_SEGMENT.saturating_sub(last.length),
        })
    }

    fn push_segment(&mut self) {
        let path = self.folder.join(format!("{:020}", self.end));
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let segment = match opened {
            Ok(file) => {
                // Whether the disk has room shows at the first write.
                self.disk_full = false;
                Segment {
                    start: self.end,
                    length: 0,
                    store: Store::File { file, path },
                }
            }
            Err(_) => {
                self.disk_full = true;
                Segment::in_memory(self.end)
            }
        };
        self.segments.push_back(segment);
    }

    /// Drops the oldest segments that the window, or the cap on memory, no longer holds.
    fn drop_old(&mut self) {
        loop {
            let Some(second) = self.segments.get(1).map(|s| s.start) else {
                return;
            };
            let in_memory: u64 = self
                .segments
                .iter()
                .filter(|s| matches!(s.store, Store::Memory(_)))
                .map(|s| s.length)
                .sum();
            if self.end - second < self.window && in_memory <= MEMORY_WINDOW {
                return;
            }
            if let Some(Segment {
                store: Store::File { path, .. },
                ..
            }) = self.segments.pop_front()
            {
                // A segment that cannot be removed costs disk and nothing else.
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl Segment {
    fn in_memory(start: u64) -> Self {
        Self {
            start,
            length: 0,
            store: Store::Memory(Vec::new()),
        }
    }

    /// Writes all of the bytes or none.
    fn write(&mut self, bytes: &[u8]) -> Result<(), io::Error> {
        match &mut self.store {
            Store::File { file, path } => {
                if let Err(error) = file.write_all_at(bytes, self.length) {
                    // A half-written part would look like output to whoever opens the log.
                    let _ = file.set_len(self.length);
                    if self.length == 0 {
                        let _ = fs::remove_file(path);
                    }
                    return Err(error);
                }
            }
            Store::Memory(kept) => kept.extend_from_slice(bytes),
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

fn segment_start(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    (name.len() == 20).then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read_all(log: &OutputLog, from: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let piece = log.read(from + bytes.len() as u64, 7_000).unwrap();
            if piece.bytes.is_empty() {
                return bytes;
            }
            bytes.extend(piece.bytes);
        }
    }

    fn numbered(from: u64, to: u64) -> Vec<u8> {
        (from..to).map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn every_byte_in_the_window_is_read_back_at_its_offset() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = OutputLog::create(dir.path(), MIN_OUTPUT_WINDOW).unwrap();

        for at in (0..1_000_000).step_by(10_000) {
            log.append(&numbered(at, at + 10_000));
        }

        assert_eq!(log.end(), 1_000_000);
        assert!(log.end() - log.start() >= MIN_OUTPUT_WINDOW);
        assert!(log.end() - log.start() <= MIN_OUTPUT_WINDOW + (64 << 10));
        assert_eq!(
            read_all(&log, log.start()),
            numbered(log.start(), 1_000_000)
        );
        assert_eq!(log.read(0, 10).unwrap().offset, log.start());
        assert_eq!(
            log.read(u64::MAX, 10).unwrap(),
            Piece {
                offset: 1_000_000,
                bytes: vec![]
            }
        );
    }

    #[test]
    fn a_log_has_few_files_open_however_large_its_window_is() {
        for window in [MIN_OUTPUT_WINDOW, DEFAULT_OUTPUT_WINDOW, MAX_OUTPUT_WINDOW] {
            let dir = tempfile::tempdir().unwrap();
            let log = OutputLog::create(dir.path(), window).unwrap();

            assert!(window.div_ceil(log.segment_size) <= SEGMENTS, "{window}");
        }
    }

    #[test]
    fn a_log_is_readable_after_its_writer_was_killed() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = OutputLog::create(dir.path(), MIN_OUTPUT_WINDOW).unwrap();
        log.append(&numbered(0, 700_000));
        let start = log.start();
        drop(log);

        let log = OutputLog::open(dir.path()).unwrap();

        assert_eq!((log.start(), log.end()), (start, 700_000));
        assert_eq!(read_all(&log, start), numbered(start, 700_000));
    }

    #[test]
    fn a_full_disk_keeps_the_newest_output_in_memory_and_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("output");
        let mut log = OutputLog::create(&folder, MIN_OUTPUT_WINDOW).unwrap();
        log.append(&numbered(0, 64 << 10));
        // A missing folder refuses new files as a full disk does.
        fs::remove_dir_all(&folder).unwrap();

        log.append(&numbered(64 << 10, 3 << 20));

        assert!(log.is_disk_full());
        assert_eq!(log.end(), 3 << 20);
        assert!(log.end() - log.start() >= MIN_OUTPUT_WINDOW);
        assert!(log.end() - log.start() <= MEMORY_WINDOW + MEMORY_SEGMENT);
        assert_eq!(read_all(&log, log.start()), numbered(log.start(), 3 << 20));

        fs::create_dir(&folder).unwrap();
        log.append(&numbered(3 << 20, 4 << 20));
        assert!(!log.is_disk_full());
        assert_eq!(read_all(&log, log.start()), numbered(log.start(), 4 << 20));
    }

    #[test]
    fn only_what_follows_a_gap_is_shown_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(format!("{:020}", 0)), b"old").unwrap();
        fs::write(dir.path().join(format!("{:020}", 100)), b"new").unwrap();

        let log = OutputLog::open(dir.path()).unwrap();

        assert_eq!((log.start(), log.end()), (100, 103));
        assert_eq!(read_all(&log, log.start()), b"new");
    }
}
