//! What a session printed, as a file for other programs: asciicast v2, or plain text.
//!
//! An asciicast v2 file has JSON lines: a header, then events `[seconds, code, data]`
//! with code `o` for output, `r` for a size and `m` for a marker. Its data are text, so
//! a character that two reads of the terminal share goes whole into the later event, and
//! bytes that are no UTF-8 become U+FFFD as a terminal shows them.

use std::io::{self, Read, Seek, Write};
use std::time::Duration;

use serde::Serialize;
use wt_protocol::session::Winsize;

use crate::log::OutputLog;
use crate::recording::{Ending, Event, EventKind, Mark, Recording};
use crate::screen::{Model, ModelLimits, Screen, Size};

/// Scrollback of exported text, in lines. At 80 columns the model takes 40 MB for them.
pub const TEXT_SCROLLBACK: usize = 20_000;

/// Bytes that are read from a log at once, which become one event.
const LOG_CHUNK: usize = 16 << 10;

/// What the header of an asciicast says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CastHead {
    /// The terminal's size at the start.
    pub size: Winsize,
    /// When the session started, in milliseconds since the Unix epoch.
    pub started_at_ms: Option<u64>,
    /// A title for people.
    pub title: Option<String>,
    /// The command that ran.
    pub command: Option<String>,
}

impl CastHead {
    /// The header for this recording, without title and command.
    pub fn of<R: Read + Seek>(recording: &Recording<R>) -> Self {
        Self {
            size: recording.size(),
            started_at_ms: Some(recording.started_at_ms()),
            title: None,
            command: None,
        }
    }
}

/// The header as asciicast v2 has it.
#[derive(Serialize)]
struct Header<'a> {
    version: u8,
    width: u16,
    height: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
}

/// Writes an asciicast, event by event.
#[derive(Debug)]
pub struct CastWriter<W> {
    out: W,
    text: Utf8Joiner,
    newest: Duration,
}

impl<W: Write> CastWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(mut out: W, head: &CastHead) -> io::Result<Self> {
        let header = Header {
            version: 2,
            width: head.size.cols,
            height: head.size.rows,
            timestamp: head.started_at_ms.map(|ms| ms / 1000),
            title: head.title.as_deref(),
            command: head.command.as_deref(),
        };
        serde_json::to_writer(&mut out, &header)?;
        out.write_all(b"\n")?;
        Ok(Self {
            out,
            text: Utf8Joiner::default(),
            newest: Duration::ZERO,
        })
    }

    /// Writes an event. Marks name no clients, since casts are made to be shown around.
    ///
    /// # Errors
    /// What the writer says.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.newest = self.newest.max(event.at);
        match &event.kind {
            EventKind::Output(bytes) => {
                let text = self.text.push(bytes);
                self.line("o", &text)
            }
            EventKind::Resize(size) => self.line("r", &format!("{}x{}", size.cols, size.rows)),
            EventKind::Mark(mark) => self.line("m", &label(mark)),
        }
    }

    /// Writes what is left of the text, and gives the writer back, flushed.
    ///
    /// # Errors
    /// What the writer says.
    pub fn finish(mut self) -> io::Result<W> {
        let rest = self.text.finish();
        self.line("o", rest)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, code: &str, data: &str) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let (seconds, micros) = (self.newest.as_secs(), self.newest.subsec_micros());
        write!(self.out, "[{seconds}.{micros:06}, \"{code}\", ")?;
        serde_json::to_writer(&mut self.out, data)?;
        self.out.write_all(b"]\n")
    }
}

fn label(mark: &Mark) -> String {
    match mark {
        Mark::Attached { .. } => "attached".into(),
        Mark::Detached { .. } => "detached".into(),
        Mark::Exited {
            signal: Some(signal),
            ..
        } => format!("ended by signal {signal}"),
        Mark::Exited { code, signal: None } => {
            format!("exited with status {}", code.unwrap_or_default())
        }
        Mark::Stopped(_) => "recording stopped".into(),
    }
}

/// Writes a recording as an asciicast, and tells how the recording ends.
///
/// # Errors
/// A recording that cannot be read to its end, or what the writer says.
pub fn cast_of_recording<R: Read + Seek, W: Write>(
    recording: &mut Recording<R>,
    head: &CastHead,
    out: W,
) -> io::Result<Ending> {
    let mut cast = CastWriter::new(out, head)?;
    let ending = each_event(recording, |event| cast.event(event))?;
    cast.finish()?;
    Ok(ending)
}

/// Writes an output log, which knows no times, as an asciicast with all output at 0 s.
///
/// The answer is the offset of the first byte that the log still had.
///
/// # Errors
/// A log that cannot be read, or what the writer says.
pub fn cast_of_log<W: Write>(log: &OutputLog, head: &CastHead, out: W) -> io::Result<u64> {
    cast_of_output(LogReader::new(log), log.start() > 0, head, out)?;
    Ok(log.start())
}

/// Like [`cast_of_log`], for output that was fetched from a log.
///
/// `is_cut` says that there was output before it.
///
/// # Errors
/// Output that cannot be read, or what the writer says.
pub fn cast_of_output<W: Write>(
    output: impl Read,
    is_cut: bool,
    head: &CastHead,
    out: W,
) -> io::Result<()> {
    let mut cast = CastWriter::new(out, head)?;
    each_piece(output, is_cut, |bytes| {
        cast.event(&Event {
            at: Duration::ZERO,
            kind: EventKind::Output(bytes),
        })
    })?;
    cast.finish()?;
    Ok(())
}

/// Writes what a terminal shows at the end of a recording, with at most
/// [`TEXT_SCROLLBACK`] lines above the screen, and tells how the recording ends.
///
/// # Errors
/// A recording that cannot be read to its end, or what the writer says.
pub fn text_of_recording<R: Read + Seek, W: Write>(
    recording: &mut Recording<R>,
    out: W,
) -> io::Result<Ending> {
    let mut model = model(recording.size());
    let ending = each_event(recording, |event| {
        match &event.kind {
            EventKind::Output(bytes) => feed(&mut model, bytes),
            EventKind::Resize(size) => model.resize(cells(*size)),
            EventKind::Mark(_) => {}
        }
        Ok(())
    })?;
    write_text(&model, out)?;
    Ok(ending)
}

/// Writes what a terminal of this size shows at the end of an output log, with at most
/// [`TEXT_SCROLLBACK`] lines above the screen.
///
/// The answer is the offset of the first byte that the log still had.
///
/// # Errors
/// A log that cannot be read, or what the writer says.
pub fn text_of_log<W: Write>(log: &OutputLog, size: Winsize, out: W) -> io::Result<u64> {
    text_of_output(LogReader::new(log), log.start() > 0, size, out)?;
    Ok(log.start())
}

/// Like [`text_of_log`], for output that was fetched from a log.
///
/// `is_cut` says that there was output before it.
///
/// # Errors
/// Output that cannot be read, or what the writer says.
pub fn text_of_output<W: Write>(
    output: impl Read,
    is_cut: bool,
    size: Winsize,
    out: W,
) -> io::Result<()> {
    let mut model = model(size);
    each_piece(output, is_cut, |bytes| {
        feed(&mut model, &bytes);
        Ok(())
    })?;
    write_text(&model, out)
}

fn each_event<R: Read + Seek>(
    recording: &mut Recording<R>,
    mut take: impl FnMut(&Event) -> io::Result<()>,
) -> io::Result<Ending> {
    recording.rewind()?;
    while let Some(event) = recording.next_event()? {
        take(&event)?;
    }
    Ok(recording
        .ending()
        .expect("the ending is known after the last event"))
}

/// Reads a log from its first byte that is still there.
struct LogReader<'a> {
    log: &'a OutputLog,
    next: u64,
}

impl<'a> LogReader<'a> {
    fn new(log: &'a OutputLog) -> Self {
        Self {
            log,
            next: log.start(),
        }
    }
}

impl Read for LogReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.log.read(self.next, into.len())?.bytes;
        into[..bytes.len()].copy_from_slice(&bytes);
        self.next += bytes.len() as u64;
        Ok(bytes.len())
    }
}

fn each_piece(
    mut output: impl Read,
    is_cut: bool,
    mut take: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    let mut is_first = true;
    loop {
        let mut bytes = Vec::with_capacity(LOG_CHUNK);
        output
            .by_ref()
            .take(LOG_CHUNK as u64)
            .read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut is_first) && is_cut {
            // The window may begin inside a character, whose first bytes are gone.
            let is_tail = |byte: &&u8| **byte & 0xc0 == 0x80;
            let tail = bytes.iter().take(3).take_while(is_tail).count();
            bytes.drain(..tail);
        }
        take(bytes)?;
    }
}

fn model(size: Winsize) -> Model {
    let limits = ModelLimits {
        scrollback_lines: TEXT_SCROLLBACK,
    };
    Model::new(cells(size), limits)
}

fn cells(size: Winsize) -> Size {
    Size {
        cols: size.cols,
        rows: size.rows,
    }
}

fn feed(model: &mut Model, bytes: &[u8]) {
    model.feed(bytes);
    // Nobody asks any more.
    model.take_replies();
    model.take_attention();
}

/// Writes lines as they were before the terminal wrapped them, without the empty ones at
/// the end.
fn write_text<W: Write>(model: &Model, mut out: W) -> io::Result<()> {
    let lines = model.text(TEXT_SCROLLBACK).lines;
    let used = lines
        .iter()
        .rposition(|line| !line.text.is_empty())
        .map_or(0, |last| last + 1);
    for (index, line) in lines[..used].iter().enumerate() {
        out.write_all(line.text.as_bytes())?;
        if !line.wrapped || index + 1 == used {
            out.write_all(b"\n")?;
        }
    }
    out.flush()
}

/// Makes text of bytes that come in pieces.
#[derive(Debug, Default)]
struct Utf8Joiner {
    /// The beginning of a character, at most 3 bytes.
    begun: Vec<u8>,
}

impl Utf8Joiner {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.begun);
        let mut text = String::with_capacity(all.len());
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let odd = chunk.invalid();
            if chunks.peek().is_none() && may_go_on(odd) {
                self.begun = odd.to_vec();
            } else if !odd.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }

    /// What a character that never came to its end is shown as.
    fn finish(&mut self) -> &'static str {
        match std::mem::take(&mut self.begun).is_empty() {
            true => "",
            false => "\u{fffd}",
        }
    }
}

/// Whether these bytes begin a character.
fn may_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Cursor, Read, Seek};
    use std::path::Path;

    use super::*;
    use crate::log::MIN_OUTPUT_WINDOW;
    use crate::recording::{DEFAULT_RECORDING_CAP, RECORDING_FILE, Recorder, Stop};

    const SIZE: Winsize = Winsize { cols: 20, rows: 4 };

    #[test]
    fn a_recording_becomes_a_valid_asciicast() {
        let mut recording = recorded(|recorder| {
            let by = || "ann".to_owned();
            recorder.mark(ms(0), &Mark::Attached { by: by() });
            recorder.output(ms(5), b"\x1b[31m\"red\"\\\x1b[0m\r\n\x07\x00\x7f");
            recorder.resize(
                ms(1_500),
                Winsize {
                    cols: 100,
                    rows: 30,
                },
            );
            recorder.output(Duration::from_micros(61_000_001), "\u{2028}é🦀".as_bytes());
            recorder.mark(ms(62_000), &Mark::Detached { by: by() });
            let exit = Mark::Exited {
                code: Some(3),
                signal: None,
            };
            recorder.mark(ms(62_000), &exit);
        });
        let head = CastHead {
            title: Some("a \"title\"".into()),
            command: Some("sh -c 'x'".into()),
            ..CastHead::of(&recording)
        };

        let mut out = Vec::new();
        let ending = cast_of_recording(&mut recording, &head, &mut out).unwrap();

        assert_eq!(ending, Ending::Exited);
        let cast = parse_cast(&out);
        assert_eq!(cast.size, (20, 4));
        assert_eq!(cast.timestamp, Some(1_700_000_000));
        assert_eq!(cast.title.as_deref(), Some("a \"title\""));
        let expected = [
            (0.0, "m", "attached"),
            (0.005, "o", "\x1b[31m\"red\"\\\x1b[0m\r\n\x07\x00\x7f"),
            (1.5, "r", "100x30"),
            (61.000_001, "o", "\u{2028}é🦀"),
            (62.0, "m", "detached"),
            (62.0, "m", "exited with status 3"),
        ];
        let expected = expected.map(|(at, code, data)| (at, code.to_owned(), data.to_owned()));
        assert_eq!(cast.events, expected);
    }

    #[test]
    fn characters_cut_between_events_are_carried_over_wherever_they_are_cut() {
        let text = "aé漢🦀z";
        let bytes = text.as_bytes();
        for cut in 0..=bytes.len() {
            for second in cut..=bytes.len() {
                let out = cast_of(&[&bytes[..cut], &bytes[cut..second], &bytes[second..]]);

                assert_eq!(out, text, "cut at {cut} and {second}");
            }
        }
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(cast_of(&bytewise), text);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_as_a_terminal_does() {
        let odd: [&[u8]; 7] = [
            b"a\xffb",
            b"\xc3(",
            b"\xe2\x82",
            b"\xf0\x9f\xa6x",
            b"\xed\xa0\x80",
            b"\x80\x80\x80\x80",
            b"\xf0\x9f\xa6",
        ];
        for bytes in odd {
            let expected = String::from_utf8_lossy(bytes);
            let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();

            assert_eq!(cast_of(&[bytes]), expected, "{bytes:x?}");
            assert_eq!(cast_of(&bytewise), expected, "{bytes:x?} bytewise");
        }
    }

    #[test]
    fn a_log_without_times_becomes_a_cast_at_zero_seconds() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = OutputLog::create(dir.path(), MIN_OUTPUT_WINDOW).unwrap();
        let printed = "é".repeat(20_000);
        log.append(b"x");
        log.append(printed.as_bytes());
        let head = CastHead {
            size: SIZE,
            started_at_ms: None,
            title: None,
            command: None,
        };

        let mut out = Vec::new();
        let start = cast_of_log(&log, &head, &mut out).unwrap();

        assert_eq!(start, 0);
        let cast = parse_cast(&out);
        assert_eq!(cast.timestamp, None);
        assert!(cast.events.len() > 1);
        assert!(cast.events.iter().all(|(at, _, _)| *at == 0.0));
        assert_eq!(cast.text(), format!("x{printed}"));
    }

    #[test]
    fn a_log_that_begins_inside_a_character_loses_that_one_alone() {
        let dir = tempfile::tempdir().unwrap();
        let crab = "🦀".as_bytes();
        let name = format!("{:020}", 1_000_001);
        std::fs::write(dir.path().join(name), [&crab[1..], b"\x80ok"].concat()).unwrap();
        let log = OutputLog::open(dir.path()).unwrap();
        let mut text = Vec::new();

        assert_eq!(text_of_log(&log, SIZE, &mut text).unwrap(), 1_000_001);

        assert_eq!(String::from_utf8(text).unwrap(), "\u{fffd}ok\n");
    }

    #[test]
    fn text_has_scrollback_and_lines_as_the_program_wrote_them() {
        let long = "0123456789".repeat(5);
        let mut recording = recorded(|recorder| {
            for n in 0..100 {
                recorder.output(ms(n), format!("line {n}\r\n").as_bytes());
            }
            recorder.output(ms(100), format!("{long}\r\n\r\n").as_bytes());
            recorder.output(ms(101), b"wrong\r\x1b[Kright\x1b[6n\r\n\r\n");
            recorder.resize(ms(102), Winsize { cols: 30, rows: 4 });
            recorder.mark(ms(103), &Mark::Stopped(Stop::Cap));
        });

        let mut out = Vec::new();
        let ending = text_of_recording(&mut recording, &mut out).unwrap();

        assert_eq!(ending, Ending::Stopped(Stop::Cap));
        let expected: String = (0..100).map(|n| format!("line {n}\n")).collect();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("{expected}{long}\n\nright\n")
        );
    }

    #[test]
    fn an_empty_session_exports_a_header_and_no_text() {
        let mut recording = recorded(|_| {});
        let head = CastHead::of(&recording);
        let (mut cast, mut text) = (Vec::new(), Vec::new());

        let ending = cast_of_recording(&mut recording, &head, &mut cast).unwrap();
        text_of_recording(&mut recording, &mut text).unwrap();

        assert_eq!(ending, Ending::Open);
        assert_eq!(parse_cast(&cast).events, []);
        assert_eq!(text, b"");
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn recorded(write: impl FnOnce(&mut Recorder)) -> Recording<impl Read + Seek> {
        let dir = tempfile::tempdir().unwrap();
        let path: &Path = &dir.path().join(RECORDING_FILE);
        let mut recorder =
            Recorder::create(path, SIZE, DEFAULT_RECORDING_CAP, 1_700_000_000_999).unwrap();
        write(&mut recorder);
        drop(recorder);
        Recording::new(Cursor::new(std::fs::read(path).unwrap())).unwrap()
    }

    /// The text of a cast of output in these pieces.
    fn cast_of(pieces: &[&[u8]]) -> String {
        let head = CastHead {
            size: SIZE,
            started_at_ms: None,
            title: None,
            command: None,
        };
        let mut cast = CastWriter::new(Vec::new(), &head).unwrap();
        for (n, piece) in pieces.iter().enumerate() {
            let event = Event {
                at: ms(n as u64),
                kind: EventKind::Output(piece.to_vec()),
            };
            cast.event(&event).unwrap();
        }
        parse_cast(&cast.finish().unwrap()).text()
    }

    /// An asciicast v2 file as another program reads it.
    #[derive(Debug)]
    struct Cast {
        size: (u64, u64),
        timestamp: Option<u64>,
        title: Option<String>,
        events: Vec<(f64, String, String)>,
    }

    impl Cast {
        fn text(&self) -> String {
            let output = self.events.iter().filter(|(_, code, _)| code == "o");
            output.map(|(_, _, data)| data.as_str()).collect()
        }
    }

    /// Reads an asciicast by the rules of its format, and fails on whatever breaks one.
    fn parse_cast(bytes: &[u8]) -> Cast {
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(text.ends_with('\n'));
        let mut lines = text.split_terminator('\n');
        let header: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(header["version"], 2);
        let mut newest = 0.0;
        let events = lines.map(|line| {
            let (at, code, data): (f64, String, String) = serde_json::from_str(line).unwrap();
            assert!(at >= newest, "times never run back");
            newest = at;
            assert!(["o", "i", "r", "m"].contains(&code.as_str()), "{code}");
            if code == "r" {
                let (cols, rows) = data.split_once('x').unwrap();
                assert!(cols.parse::<u16>().unwrap() > 0 && rows.parse::<u16>().unwrap() > 0);
            }
            (at, code, data)
        });
        Cast {
            events: events.collect(),
            size: (
                header["width"].as_u64().unwrap(),
                header["height"].as_u64().unwrap(),
            ),
            timestamp: header.get("timestamp").map(|t| t.as_u64().unwrap()),
            title: header.get("title").map(|t| t.as_str().unwrap().to_owned()),
        }
    }
}
