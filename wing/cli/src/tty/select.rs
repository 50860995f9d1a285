//! Lets the user choose a session, with a look at the screen of each.
//!
//! [`Picker`] is the core: lists, screens and keys go in, what to do and a picture come
//! out. [`run`] moves them between the terminal and the sessions. Keys are read by the
//! reader that attaching has as well, so that no other one takes what is typed next.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, List, ListItem, ListState, Paragraph};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wt_egg::server::now_ms;
use wt_protocol::rpc::{ScreenText, SessionRecord};
use wt_protocol::session::Winsize;
use wt_wing::Error;

use super::attach::{Signalled, Signals};
use super::device::{Keyboard, Screen};
use super::input::{Input, Piece};
use super::raw::RawMode;
use crate::output::plain;
use crate::place::Place;
use crate::views::{age, status_word};

/// How often the list is asked for.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// How often the chosen session's screen is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long the terminal may take to be given back.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// Longest search, in characters.
const MAX_SEARCH: usize = 100;

/// Narrower terminals have the list above the screen instead of beside it.
const SIDE_BY_SIDE: u16 = 70;

/// The alternate screen, without a cursor of its own and with the title put away.
const ENTER: &[u8] = b"\x1b[22;0t\x1b[?1049h\x1b[0m\x1b[2J\x1b[H";
const BLANK: &[u8] = b"\x1b[0m\x1b[2J\x1b[H";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?1049l\x1b[?25h\x1b[23;0t";

/// What the user chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selected {
    /// The session with this id.
    Session(String),
    /// None; the command ends with this status.
    Left(u8),
}

/// Shows the picker until the user chose or left. The terminal is as before then.
///
/// # Errors
/// When the terminal cannot be used.
pub(crate) async fn run(place: &Place, sessions: Vec<SessionRecord>) -> io::Result<Selected> {
    let mut signals = Signals::new()?;
    let raw = RawMode::enter()?;
    let mut screen = Screen::start()?;
    let mut keyboard = Keyboard::start()?;
    let selected = choose(
        place,
        Picker::new(sessions),
        &raw,
        &mut screen,
        &mut keyboard,
        &mut signals,
    )
    .await;
    drop(keyboard);
    let giving_back = async {
        if screen.writes.send(LEAVE.to_vec()).await.is_ok() {
            screen.close().await;
        }
    };
    let _ = timeout(LAST_WRITES, giving_back).await;
    drop(raw);
    selected
}

async fn choose(
    place: &Place,
    mut picker: Picker,
    raw: &RawMode,
    screen: &mut Screen,
    keyboard: &mut Keyboard,
    signals: &mut Signals,
) -> io::Result<Selected> {
    let (look_at, mut news) = watch_place(place, picker.chosen());
    let mut canvas = Canvas::new(super::size())?;
    let (mut input, mut keys) = (Input::default(), KeyReader::default());
    let mut release_at: Option<Instant> = None;
    let mut begin = Some(ENTER.to_vec());
    let mut is_drawn = false;
    loop {
        let pieces = tokio::select! {
            failed = &mut screen.failed => {
                return Err(failed.unwrap_or_else(|_| io::ErrorKind::BrokenPipe.into()));
            }
            signal = signals.next() => match signal {
                Signalled::End(signal) => {
                    return Ok(Selected::Left(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
                }
                Signalled::Resized | Signalled::Continued => {
                    let _ = raw.again();
                    canvas = Canvas::new(super::size())?;
                    begin = Some(BLANK.to_vec());
                    is_drawn = false;
                    continue;
                }
            },
            permit = screen.writes.reserve(), if !is_drawn => {
                let Ok(permit) = permit else { return Err(io::ErrorKind::BrokenPipe.into()) };
                let mut bytes = begin.take().unwrap_or_default();
                bytes.extend(canvas.draw(|frame| picker.draw(frame, now_ms()))?);
                permit.send(bytes);
                is_drawn = true;
                continue;
            }
            Some(news) = news.recv() => {
                picker.learn(news);
                Vec::new()
            }
            () = at(release_at) => {
                release_at = None;
                input.release()
            }
            typed = keyboard.next() => match typed {
                Some(bytes) => {
                    let pieces = input.feed(&bytes);
                    release_at = input.patience().map(|wait| Instant::now() + wait);
                    pieces
                }
                // The end of input, or of the terminal.
                None => return Ok(Selected::Left(0)),
            },
        };
        for key in keys.read(pieces) {
            match picker.press(key) {
                Step::Stay => {}
                Step::Attach(id) => return Ok(Selected::Session(id)),
                Step::Leave(status) => return Ok(Selected::Left(status)),
            }
        }
        let chosen = picker.chosen();
        look_at.0.send_if_modified(|before| {
            let is_other = *before != chosen;
            *before = chosen;
            is_other
        });
        is_drawn = false;
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// What is told of the sessions while the user chooses.
enum News {
    List(Result<Vec<SessionRecord>, Error>),
    Screen(String, Result<ScreenText, Error>),
}

/// Which session is looked at, and the tasks that ask; dropped, it ends them.
struct LookAt(watch::Sender<Option<String>>, [JoinHandle<()>; 2]);

impl Drop for LookAt {
    fn drop(&mut self) {
        for task in &self.1 {
            task.abort();
        }
    }
}

/// Asks for lists and screens again and again. Two tasks, because a session that does not
/// answer must not hold up the list.
fn watch_place(place: &Place, chosen: Option<String>) -> (LookAt, mpsc::Receiver<News>) {
    let (tell, news) = mpsc::channel(1);
    let (look_at, mut looked_at) = watch::channel(chosen);
    let lists = tokio::spawn({
        let (place, tell) = (place.clone(), tell.clone());
        async move {
            loop {
                sleep(LIST_EVERY).await;
                if tell.send(News::List(place.list().await)).await.is_err() {
                    return;
                }
            }
        }
    });
    let looks = tokio::spawn({
        let place = place.clone();
        async move {
            loop {
                let id = looked_at.borrow_and_update().clone();
                let look = async {
                    if let Some(id) = id {
                        let screen = place.screen(&id, 0).await;
                        let _ = tell.send(News::Screen(id, screen)).await;
                    }
                    sleep(LOOK_EVERY).await;
                };
                tokio::select! {
                    () = look => {}
                    changed = looked_at.changed() => if changed.is_err() { return },
                }
            }
        }
    });
    (LookAt(look_at, [lists, looks]), news)
}

/// Where pictures become bytes for the terminal.
struct Canvas {
    terminal: Terminal<CrosstermBackend<Bytes>>,
    bytes: Bytes,
}

#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Canvas {
    /// A blank one. Its area is fixed, so that it never asks the terminal for anything.
    fn new(size: Winsize) -> io::Result<Self> {
        let bytes = Bytes::default();
        let viewport = Viewport::Fixed(Rect::new(0, 0, size.cols, size.rows));
        let terminal = Terminal::with_options(
            CrosstermBackend::new(bytes.clone()),
            TerminalOptions { viewport },
        )?;
        Ok(Self { terminal, bytes })
    }

    /// What to write, so that the terminal shows this.
    fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<Vec<u8>> {
        self.terminal.draw(draw)?;
        Ok(self.bytes.take())
    }
}

/// A key that means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Char(char),
    Backspace,
    Clear,
    Up,
    Down,
    First,
    Last,
    Enter,
    Escape,
    Interrupt,
}

/// Makes keys of what the terminal sends; a character may come in pieces.
#[derive(Debug, Default)]
struct KeyReader {
    begun: Vec<u8>,
}

impl KeyReader {
    fn read(&mut self, pieces: Vec<Piece>) -> Vec<Key> {
        let mut keys = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(bytes) => self.read_text(&bytes, &mut keys),
                Piece::Sequence(sequence) => keys.extend(match sequence.as_slice() {
                    b"\x1b[A" | b"\x1bOA" => Some(Key::Up),
                    b"\x1b[B" | b"\x1bOB" => Some(Key::Down),
                    b"\x1b[H" | b"\x1bOH" | b"\x1b[1~" => Some(Key::First),
                    b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" => Some(Key::Last),
                    _ => None,
                }),
                // Nobody asked for pastes with marks.
                Piece::Paste(_) => {}
            }
        }
        keys
    }

    fn read_text(&mut self, bytes: &[u8], keys: &mut Vec<Key>) {
        self.begun.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.begun);
        for chunk in all.utf8_chunks() {
            keys.extend(chunk.valid().chars().filter_map(|c| match c {
                '\r' | '\n' => Some(Key::Enter),
                '\x7f' | '\x08' => Some(Key::Backspace),
                '\x15' => Some(Key::Clear),
                '\x10' => Some(Key::Up),
                '\x0e' => Some(Key::Down),
                '\x1b' => Some(Key::Escape),
                '\x03' => Some(Key::Interrupt),
                c if c.is_control() => None,
                c => Some(Key::Char(c)),
            }));
        }
        // The beginning of a character, if it is one.
        if let Err(error) = std::str::from_utf8(&all)
            && error.error_len().is_none()
        {
            self.begun = all[error.valid_up_to()..].to_vec();
        }
    }
}

/// What to do after a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Stay,
    Attach(String),
    Leave(u8),
}

/// The list, the search, and which session is chosen.
#[derive(Debug)]
struct Picker {
    sessions: Vec<SessionRecord>,
    search: String,
    /// The id of the session under the bar. It stays while others come and go.
    chosen: Option<String>,
    /// The screen of the session with this id, or why there is none.
    preview: Option<(String, Result<ScreenText, String>)>,
    trouble: Option<String>,
}

impl Picker {
    fn new(sessions: Vec<SessionRecord>) -> Self {
        let mut picker = Self {
            sessions: Vec::new(),
            search: String::new(),
            chosen: None,
            preview: None,
            trouble: None,
        };
        picker.list(sessions);
        picker
    }

    /// The id of the session under the bar.
    fn chosen(&self) -> Option<String> {
        self.chosen.clone()
    }

    fn learn(&mut self, news: News) {
        match news {
            News::List(Ok(sessions)) => {
                self.trouble = None;
                self.list(sessions);
            }
            News::List(Err(error)) => self.trouble = Some(error.message),
            News::Screen(id, screen) if Some(&id) == self.chosen.as_ref() => {
                self.preview = Some((id, screen.map_err(|error| error.message)));
            }
            News::Screen(..) => {}
        }
    }

    /// Takes the living ones of a list. The bar stays on its session.
    fn list(&mut self, mut sessions: Vec<SessionRecord>) {
        sessions.retain(|session| session.status.is_living());
        let place = self.place();
        self.sessions = sessions;
        self.settle(place);
    }

    fn press(&mut self, key: Key) -> Step {
        let place = self.place();
        match key {
            Key::Char(c) if self.search.chars().count() < MAX_SEARCH => self.search.push(c),
            Key::Char(_) => {}
            Key::Backspace => {
                self.search.pop();
            }
            Key::Clear => self.search.clear(),
            Key::Up => self.choose(place.saturating_sub(1)),
            Key::Down => self.choose(place + 1),
            Key::First => self.choose(0),
            Key::Last => self.choose(usize::MAX),
            Key::Enter => {
                return self.chosen.clone().map_or(Step::Stay, Step::Attach);
            }
            Key::Escape => return Step::Leave(0),
            Key::Interrupt => return Step::Leave(130),
        }
        self.settle(place);
        Step::Stay
    }

    /// Those that the search finds: every word of it is in what is known of the session.
    fn found(&self) -> Vec<&SessionRecord> {
        let words: Vec<String> = self
            .search
            .split_whitespace()
            .map(str::to_lowercase)
            .collect();
        let matches = |session: &SessionRecord| {
            let known = [
                session.name.as_str(),
                &session.id,
                &session.title,
                &session.cwd,
                session.agent.as_deref().unwrap_or_default(),
                session.attention.as_deref().unwrap_or_default(),
                &session.command.join(" "),
            ]
            .join("\n")
            .to_lowercase();
            words.iter().all(|word| known.contains(word.as_str()))
        };
        self.sessions.iter().filter(|s| matches(s)).collect()
    }

    /// Where the bar is among those that are found.
    fn place(&self) -> usize {
        let found = self.found();
        let at = found
            .iter()
            .position(|s| Some(&s.id) == self.chosen.as_ref());
        at.unwrap_or(0)
    }

    fn choose(&mut self, place: usize) {
        let found = self.found();
        self.chosen = found
            .get(place)
            .or(found.last())
            .map(|session| session.id.clone());
    }

    /// Brings the bar to its place if its session is not there any more.
    fn settle(&mut self, place: usize) {
        let found = self.found();
        if !found.iter().any(|s| Some(&s.id) == self.chosen.as_ref()) {
            self.choose(place);
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, now: u64) {
        let [search, body, help] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let [list, preview] = if body.width >= SIDE_BY_SIDE {
            Layout::horizontal([Constraint::Percentage(40), Constraint::Percentage(60)]).areas(body)
        } else {
            Layout::vertical([Constraint::Percentage(40), Constraint::Percentage(60)]).areas(body)
        };
        let line = Line::from(format!("> {}", self.search));
        let column = search.x + (line.width() as u16).min(search.width.saturating_sub(1));
        frame.render_widget(line, search);
        frame.set_cursor_position(Position::new(column, search.y));
        self.draw_list(frame, list, now);
        self.draw_preview(frame, preview);
        let keys = "type to search   Up/Down choose   Enter attach   Esc leave";
        let help_line = match &self.trouble {
            Some(trouble) => Line::from(plain(trouble).into_owned()),
            None => Line::from(keys),
        };
        frame.render_widget(
            help_line.style(Style::new().add_modifier(Modifier::DIM)),
            help,
        );
    }

    fn draw_list(&self, frame: &mut Frame<'_>, area: Rect, now: u64) {
        let found = self.found();
        let items = found.iter().map(|session| ListItem::new(row(session, now)));
        let title = format!(" {} of {} ", found.len(), self.sessions.len());
        let list = List::new(items)
            .block(Block::bordered().title(title))
            .highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let chosen = (!found.is_empty()).then(|| self.place());
        let mut state = ListState::default().with_selected(chosen);
        frame.render_stateful_widget(list, area, &mut state);
    }

    fn draw_preview(&self, frame: &mut Frame<'_>, area: Rect) {
        let session = self
            .sessions
            .iter()
            .find(|s| Some(&s.id) == self.chosen.as_ref());
        let title = session.map_or(String::new(), |session| {
            if session.title.is_empty() {
                format!(" {} ", plain(&session.name))
            } else {
                format!(" {}: {} ", plain(&session.name), plain(&session.title))
            }
        });
        let block = Block::bordered().title(title);
        let height = usize::from(block.inner(area).height);
        let lines: Vec<Line<'_>> = match &self.preview {
            Some((id, screen)) if Some(id) == self.chosen.as_ref() => match screen {
                Ok(screen) => seen(screen, height)
                    .iter()
                    .map(|line| Line::from(plain(line).into_owned()))
                    .collect(),
                Err(reason) => vec![Line::from(plain(reason).into_owned())],
            },
            Some(_) | None => Vec::new(),
        };
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }
}

/// A session as the list shows it. One that wants its user has a mark and says for what.
fn row(session: &SessionRecord, now: u64) -> Line<'static> {
    let mut spans = vec![
        Span::raw(if session.attention.is_some() {
            "! "
        } else {
            "  "
        }),
        Span::styled(
            plain(&session.name).into_owned(),
            Style::new().add_modifier(Modifier::BOLD),
        ),
    ];
    if let Some(attention) = &session.attention {
        spans.push(Span::raw(format!("  [{}]", plain(attention))));
    }
    spans.push(Span::raw(format!("  {}", status_word(session))));
    if session.clients > 0 {
        spans.push(Span::raw(format!("  {} attached", session.clients)));
    }
    spans.push(Span::raw(format!("  {}", age(session.created_at_ms, now))));
    spans.push(Span::styled(
        format!("  {}", plain(&session.command.join(" "))),
        Style::new().add_modifier(Modifier::DIM),
    ));
    Line::from(spans)
}

/// So many lines of a screen that the newest one is among them.
fn seen(screen: &ScreenText, height: usize) -> &[String] {
    let lines = screen
        .lines
        .get(screen.scrollback as usize..)
        .unwrap_or_default();
    let last_text = lines.iter().rposition(|line| !line.trim_end().is_empty());
    let end = last_text
        .map_or(0, |at| at + 1)
        .max(usize::from(screen.cursor_row) + 1)
        .min(lines.len());
    &lines[end.saturating_sub(height)..end]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ratatui::backend::TestBackend;
    use wt_protocol::rpc::SessionStatus;

    use super::*;
    use crate::views::tests::record;

    const NOW: u64 = 1_800_000_060_123;

    fn three() -> Vec<SessionRecord> {
        let mut waiting = record("bbbbbbbbbbbb", "claude");
        waiting.attention = Some("prompt".to_owned());
        let mut build = record("cccccccccccc", "build");
        build.command = vec!["make".to_owned(), "All".to_owned()];
        vec![record("aaaaaaaaaaaa", "work"), waiting, build]
    }

    fn type_in(picker: &mut Picker, text: &str) {
        for c in text.chars() {
            assert_eq!(picker.press(Key::Char(c)), Step::Stay);
        }
    }

    fn screen(lines: &[&str], cursor_row: u16) -> ScreenText {
        ScreenText {
            id: "aaaaaaaaaaaa".to_owned(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            scrollback: 0,
            cursor_row,
            cursor_col: 0,
            cursor_visible: true,
            size: Winsize {
                cols: 80,
                rows: lines.len() as u16,
            },
            title: String::new(),
            modes: Vec::new(),
            offset: 0,
            truncated_before: 0,
        }
    }

    fn picture(picker: &Picker, cols: u16, rows: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(cols, rows)).unwrap();
        terminal.draw(|frame| picker.draw(frame, NOW)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn enter_attaches_to_the_session_under_the_bar() {
        let mut picker = Picker::new(three());

        assert_eq!(picker.press(Key::Down), Step::Stay);

        assert_eq!(
            picker.press(Key::Enter),
            Step::Attach("bbbbbbbbbbbb".into())
        );
    }

    #[test]
    fn the_bar_stops_at_both_ends() {
        let mut picker = Picker::new(three());

        picker.press(Key::Up);
        assert_eq!(picker.chosen().unwrap(), "aaaaaaaaaaaa");
        for _ in 0..5 {
            picker.press(Key::Down);
        }
        assert_eq!(picker.chosen().unwrap(), "cccccccccccc");
        picker.press(Key::First);
        assert_eq!(picker.chosen().unwrap(), "aaaaaaaaaaaa");
        picker.press(Key::Last);
        assert_eq!(picker.chosen().unwrap(), "cccccccccccc");
    }

    #[test]
    fn a_search_finds_every_word_in_any_case_and_the_bar_follows() {
        let mut picker = Picker::new(three());

        type_in(&mut picker, "ALL mak");
        assert_eq!(picker.chosen().unwrap(), "cccccccccccc");
        assert_eq!(
            picker.press(Key::Enter),
            Step::Attach("cccccccccccc".into())
        );

        picker.press(Key::Clear);
        type_in(&mut picker, "prompt");
        assert_eq!(picker.chosen().unwrap(), "bbbbbbbbbbbb");

        type_in(&mut picker, "nothing");
        assert_eq!(picker.chosen(), None);
        assert_eq!(picker.press(Key::Enter), Step::Stay);

        for _ in 0.."nothing".len() {
            picker.press(Key::Backspace);
        }
        assert_eq!(picker.chosen().unwrap(), "bbbbbbbbbbbb");
    }

    #[test]
    fn the_bar_stays_on_its_session_while_others_come_and_go() {
        let mut picker = Picker::new(three());
        picker.press(Key::Down);

        let mut more = three();
        more.insert(0, record("dddddddddddd", "newest"));
        picker.learn(News::List(Ok(more)));
        assert_eq!(picker.chosen().unwrap(), "bbbbbbbbbbbb");

        let mut ended = three();
        ended[1].status = SessionStatus::Exited;
        picker.learn(News::List(Ok(ended)));
        assert_eq!(picker.chosen().unwrap(), "cccccccccccc");

        picker.learn(News::List(Ok(Vec::new())));
        assert_eq!(picker.chosen(), None);
    }

    #[test]
    fn escape_leaves_in_order_and_ctrl_c_as_an_interrupt() {
        let mut picker = Picker::new(three());

        assert_eq!(picker.press(Key::Escape), Step::Leave(0));
        assert_eq!(picker.press(Key::Interrupt), Step::Leave(130));
    }

    #[test]
    fn keys_are_read_from_bytes_and_characters_may_come_in_pieces() {
        let mut keys = KeyReader::default();
        let text = |bytes: &[u8]| vec![Piece::Text(bytes.to_vec())];

        assert_eq!(keys.read(text(b"a\xc3")), [Key::Char('a')]);
        assert_eq!(
            keys.read(text(b"\xa4\x7f")),
            [Key::Char('ä'), Key::Backspace]
        );
        let arrows = [b"\x1b[A".as_slice(), b"\x1bOB", b"\x1b[5~"];
        let arrows = arrows.map(|s| Piece::Sequence(s.to_vec())).to_vec();
        assert_eq!(keys.read(arrows), [Key::Up, Key::Down]);
        assert_eq!(keys.read(text(b"\x1b")), [Key::Escape]);
    }

    #[test]
    fn the_newest_lines_of_a_screen_are_seen() {
        let prompt_in_the_middle = screen(&["a", "b", "$", "", "", ""], 2);
        assert_eq!(seen(&prompt_in_the_middle, 2), ["b", "$"]);
        assert_eq!(seen(&prompt_in_the_middle, 9), ["a", "b", "$"]);

        let cursor_below = screen(&["a", "", "", ""], 3);
        assert_eq!(seen(&cursor_below, 2), ["", ""]);
    }

    #[test]
    fn list_screen_and_attention_are_drawn() {
        let mut picker = Picker::new(three());
        picker.learn(News::Screen(
            "aaaaaaaaaaaa".into(),
            Ok(screen(&["$ ls", "\x1b[2Jfile", "$"], 2)),
        ));
        // It came too late: the bar is elsewhere.
        picker.learn(News::Screen("cccccccccccc".into(), Ok(screen(&["no"], 0))));

        insta::assert_snapshot!(picture(&picker, 80, 8));
    }

    #[test]
    fn tiny_terminals_are_drawn_on_without_harm() {
        let picker = Picker::new(three());

        for (cols, rows) in [(1, 1), (2, 3), (20, 2), (69, 5), (1_000, 1)] {
            picture(&picker, cols, rows);
        }
    }

    #[test]
    fn a_canvas_gives_bytes_and_asks_the_terminal_nothing() {
        let picker = Picker::new(three());
        let mut canvas = Canvas::new(Winsize { cols: 80, rows: 24 }).unwrap();

        let first = canvas.draw(|frame| picker.draw(frame, NOW)).unwrap();
        let second = canvas.draw(|frame| picker.draw(frame, NOW)).unwrap();

        assert!(String::from_utf8_lossy(&first).contains("claude"));
        assert!(!first.windows(3).any(|query| query == b"[6n"));
        assert!(
            second.len() < first.len() / 4,
            "what is shown is not drawn again"
        );
    }
}
