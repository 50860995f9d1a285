//! Searching memory, files and logs for bytes that must not be there.
//!
//! A needle is searched as it is and in the forms in which a program would show it:
//! hex, base64 at each alignment, UTF-16, and the number lists of debug output. A
//! search that finds nothing proves nothing unless it can find something, so every
//! test also searches for a needle that must be there.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem::Finder;

/// What one step of a search reads. Steps overlap by the longest form of a needle.
const STEP: usize = 4 << 20;

/// Shortest needle, in bytes: a shorter one is found everywhere by chance.
const SHORTEST: usize = 8;

/// Needles in all their forms.
pub struct Needles {
    forms: Vec<Form>,
    longest: usize,
}

struct Form {
    needle: String,
    form: &'static str,
    finder: Finder<'static>,
}

/// A needle that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The needle's name.
    pub needle: String,
    /// The form it had.
    pub form: &'static str,
    /// Where it was.
    pub place: String,
}

/// What a search did.
#[derive(Debug, Default)]
pub struct Search {
    /// All that was found.
    pub found: Vec<Found>,
    /// Bytes that were searched: none means that the search itself failed.
    pub searched: u64,
}

impl Search {
    /// Adds another search's findings.
    pub fn add(&mut self, other: Search) {
        self.found.extend(other.found);
        self.searched += other.searched;
    }

    /// Insists that nothing was found in something.
    ///
    /// # Panics
    /// When a needle was found or nothing was searched.
    #[track_caller]
    pub fn assert_clean(&self, what: &str) {
        assert!(self.searched > 0, "{what}: there was nothing to search");
        assert!(self.found.is_empty(), "{what} holds {:#?}", self.found);
    }

    /// Insists that a needle was found, in whatever form.
    ///
    /// # Panics
    /// When it was not.
    #[track_caller]
    pub fn assert_holds(&self, what: &str, needle: &str) {
        assert!(
            self.found.iter().any(|found| found.needle == needle),
            "{what}: the search does not even find `{needle}`, which is there; {} bytes were \
             searched",
            self.searched
        );
    }
}

impl Needles {
    /// Prepares the search for named needles.
    ///
    /// # Panics
    /// When a needle is too short to mean anything.
    pub fn new(needles: &[(&str, &[u8])]) -> Self {
        let mut forms = Vec::new();
        for (name, bytes) in needles {
            assert!(
                bytes.len() >= SHORTEST,
                "the needle {name} has under {SHORTEST} bytes"
            );
            for (form, pattern) in forms_of(bytes) {
                forms.push(Form {
                    needle: (*name).to_owned(),
                    form,
                    finder: Finder::new(&pattern).into_owned(),
                });
            }
        }
        let longest = forms
            .iter()
            .map(|form| form.finder.needle().len())
            .max()
            .unwrap_or(0);
        Self { forms, longest }
    }

    /// Searches bytes.
    pub fn in_bytes(&self, place: &str, bytes: &[u8]) -> Search {
        let found = self
            .forms
            .iter()
            .filter(|form| form.finder.find(bytes).is_some())
            .map(|form| Found {
                needle: form.needle.clone(),
                form: form.form,
                place: place.to_owned(),
            })
            .collect();
        Search {
            found,
            searched: bytes.len() as u64,
        }
    }

    /// Searches one file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn in_file(&self, path: &Path) -> Result<Search> {
        let file =
            File::open(path).with_context(|| format!("could not open {}", path.display()))?;
        let length = file.metadata()?.len();
        let mut search = self.in_part(file, 0, length, &path.display().to_string());
        // A file's name is as readable as what it holds.
        search.add(self.in_bytes("the name of a file", path.as_os_str().as_encoded_bytes()));
        Ok(search)
    }

    /// Searches every file below a directory, and the names of all.
    ///
    /// # Errors
    /// When something cannot be read.
    pub fn in_dir(&self, dir: &Path) -> Result<Search> {
        let mut search = Search::default();
        for path in files_below(dir)? {
            search.add(self.in_file(&path)?);
        }
        Ok(search)
    }

    /// Searches all readable memory of a process of the same user.
    ///
    /// The process runs on meanwhile: what it moves from a part that is not searched yet
    /// to one that was can be missed, so a test searches an idle process.
    ///
    /// # Errors
    /// When the process is gone or its memory is closed to this one.
    pub fn in_process(&self, pid: u32) -> Result<Search> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))
            .with_context(|| format!("could not read the map of process {pid}"))?;
        let mut search = Search::default();
        for mapping in maps.lines().filter_map(Mapping::parse) {
            let memory = File::open(format!("/proc/{pid}/mem"))
                .with_context(|| format!("could not open the memory of process {pid}"))?;
            let place = format!("process {pid}, {}", mapping.name);
            search.add(self.in_part(memory, mapping.from, mapping.to, &place));
        }
        Ok(search)
    }

    /// Searches a part of a file in overlapping steps, as far as it can be read.
    fn in_part(&self, mut file: File, from: u64, to: u64, place: &str) -> Search {
        let mut search = Search::default();
        if file.seek(SeekFrom::Start(from)).is_err() {
            return search;
        }
        let mut left = file.take(to.saturating_sub(from));
        let mut window = Vec::new();
        loop {
            let keep = window.len().min(self.longest.saturating_sub(1));
            window.drain(..window.len() - keep);
            // Guard pages and device memory end a mapping early: the rest is not readable by
            // anybody this way.
            let Ok(count @ 1..) = left.by_ref().take(STEP as u64).read_to_end(&mut window) else {
                return search;
            };
            for found in self.in_bytes(place, &window).found {
                if !search.found.contains(&found) {
                    search.found.push(found);
                }
            }
            search.searched += count as u64;
        }
    }
}

struct Mapping {
    from: u64,
    to: u64,
    name: String,
}

impl Mapping {
    /// Reads a line of `/proc/PID/maps`; none if it cannot hold anything of the program.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let readable = fields.next()?.starts_with('r');
        let name = fields.nth(3).unwrap_or("anonymous memory").to_owned();
        let is_kernels = matches!(name.as_str(), "[vvar]" | "[vsyscall]" | "[vvar_vclock]");
        (readable && !is_kernels).then_some(Self {
            from: u64::from_str_radix(from, 16).ok()?,
            to: u64::from_str_radix(to, 16).ok()?,
            name,
        })
    }
}

/// The forms in which a program may hold or show bytes.
fn forms_of(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
    let wide: Vec<u8> = bytes.iter().flat_map(|b| [*b, 0]).collect();
    let mut forms = vec![
        ("as it is", bytes.to_vec()),
        ("upper-case hex", hex.to_uppercase().into_bytes()),
        ("hex", hex.into_bytes()),
        ("a list of numbers", list.join(", ").into_bytes()),
        (
            "a list of numbers without blanks",
            list.join(",").into_bytes(),
        ),
        ("UTF-16", wide),
    ];
    for lead in 0..3 {
        for (name, engine) in [
            ("base64", &STANDARD_NO_PAD),
            ("base64url", &URL_SAFE_NO_PAD),
        ] {
            let pattern = base64_inside(engine, bytes, lead);
            if !forms.iter().any(|(_, known)| *known == pattern) {
                forms.push((name, pattern));
            }
        }
    }
    forms
}

/// The base64 characters that bytes have wherever they follow `lead` others (modulo 3):
/// those that no neighbour has a bit in.
fn base64_inside(engine: &impl Engine, bytes: &[u8], lead: usize) -> Vec<u8> {
    let padded = [&vec![0; lead][..], bytes].concat();
    let text = engine.encode(&padded);
    let first = (lead * 8).div_ceil(6);
    let last = (padded.len() * 8) / 6;
    text.as_bytes()[first..last].to_vec()
}

/// All files below a directory.
fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        let entries =
            std::fs::read_dir(&dir).with_context(|| format!("could not list {}", dir.display()))?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::process::Command;

    const CANARY: &[u8] = b"canary-7gq2\xffzz";

    fn needles() -> Needles {
        Needles::new(&[("canary", CANARY)])
    }

    fn forms_found(text: &[u8]) -> Vec<&'static str> {
        let search = needles().in_bytes("here", text);
        search.found.into_iter().map(|found| found.form).collect()
    }

    #[test]
    fn every_form_is_found_between_other_bytes() {
        let wide: Vec<u8> = CANARY.iter().flat_map(|b| [*b, 0]).collect();
        let hex: String = CANARY.iter().map(|b| format!("{b:02X}")).collect();
        let debug = format!("{:?}", CANARY.to_vec());

        assert_eq!(forms_found(&[b"..", CANARY, b".."].concat()), ["as it is"]);
        assert_eq!(forms_found(&wide), ["UTF-16"]);
        assert_eq!(forms_found(hex.as_bytes()), ["upper-case hex"]);
        assert_eq!(forms_found(debug.as_bytes()), ["a list of numbers"]);
        assert!(forms_found(b"canary-7gq1 and nothing else").is_empty());
    }

    #[test]
    fn base64_is_found_at_every_alignment() {
        for lead in 0..6 {
            for tail in 0..6 {
                let text = [&vec![b'a'; lead][..], CANARY, &vec![b'z'; tail]].concat();
                let standard = STANDARD_NO_PAD.encode(&text);
                let url_safe = URL_SAFE_NO_PAD.encode(&text);

                assert!(
                    !forms_found(standard.as_bytes()).is_empty(),
                    "{lead} {tail}"
                );
                assert!(
                    !forms_found(url_safe.as_bytes()).is_empty(),
                    "{lead} {tail}"
                );
            }
        }
    }

    #[test]
    fn the_memory_of_another_process_is_searched() {
        let needles = Needles::new(&[
            ("there", b"a-value-that-is-there"),
            ("not there", b"a-value-that-is-missing"),
        ]);
        let mut child = Command::new("sleep")
            .arg("60")
            .env_clear()
            .env("CANARY", "a-value-that-is-there")
            .spawn()
            .unwrap();

        let search = crate::wait::eventually("the child to have its own memory", || {
            let search = needles.in_process(child.id()).ok()?;
            (search.found.len() == 1).then_some(search)
        });
        child.kill().unwrap();
        child.wait().unwrap();

        search.assert_holds("sleep", "there");
        assert!(search.found[0].place.contains("[stack]"), "{search:?}");
    }

    #[test]
    fn files_are_searched_across_the_steps_of_reading() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = vec![b'.'; STEP + 4];
        bytes.splice(STEP - 5..STEP - 5, CANARY.iter().copied());
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        std::fs::write(dir.path().join("deep/file"), &bytes).unwrap();

        let search = needles().in_dir(dir.path()).unwrap();

        search.assert_holds("the directory", "canary");
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(needles().in_dir(empty.path()).unwrap().searched, 0);
    }

    #[test]
    #[should_panic(expected = "nothing to search")]
    fn a_search_of_nothing_is_not_clean() {
        Search::default().assert_clean("nothing");
    }
}
