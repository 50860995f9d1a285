//! Brings what a session left behind here, wherever it is.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;

use wt_protocol::limits::MAX_RAW_PAGE;
use wt_wing::Error;
use wt_wing::profile::Profile;

use crate::place::Place;

/// Output that was fetched.
pub(crate) struct Output {
    /// The bytes, from the first one.
    pub(crate) file: File,
    /// Offset of the first byte; those before it are not kept any more.
    pub(crate) start: u64,
}

/// The recording of a session, up to now; none when it is not recorded.
pub(crate) async fn recording(
    profile: &Profile,
    place: &Place,
    session: &str,
) -> Result<Option<File>, Error> {
    let mut file = None;
    let mut next = 0;
    // A session that prints as fast as it is read would never end.
    let mut end = None;
    while end.is_none_or(|end| next < end) {
        let Some(page) = place.recording(session, next, MAX_RAW_PAGE as u32).await? else {
            return Ok(None);
        };
        end.get_or_insert(page.end);
        if file.is_none() {
            file = Some(nameless(profile)?);
        }
        if page.bytes.is_empty() {
            break;
        }
        if let Some(file) = &mut file {
            file.write_all(&page.bytes).map_err(not_kept)?;
        }
        next += page.bytes.len() as u64;
    }
    file.map(rewound).transpose()
}

/// The output of a session as far as it is kept, up to now.
pub(crate) async fn output(
    profile: &Profile,
    place: &Place,
    session: &str,
) -> Result<Output, Error> {
    let mut file = nameless(profile)?;
    let first = place.output(session, 0, MAX_RAW_PAGE as u32).await?;
    let (mut start, end) = (first.offset, first.end);
    let mut page = first;
    loop {
        file.write_all(&page.bytes).map_err(not_kept)?;
        let next = page.offset + page.bytes.len() as u64;
        if next >= end || page.bytes.is_empty() {
            break;
        }
        page = place.output(session, next, MAX_RAW_PAGE as u32).await?;
        if page.offset > next {
            // What was in between was dropped meanwhile; text with a hole shows nonsense.
            file = nameless(profile)?;
            start = page.offset;
        }
    }
    Ok(Output {
        file: rewound(file)?,
        start,
    })
}

/// A file of the profile that goes away with this process, however it ends.
fn nameless(profile: &Profile) -> Result<File, Error> {
    profile.create()?;
    let path = profile.file(&format!("fetched-{}", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| Error::failed(format!("cannot make {}: {e}", path.display())))?;
    fs::remove_file(&path)
        .map_err(|e| Error::failed(format!("cannot remove {}: {e}", path.display())))?;
    Ok(file)
}

fn rewound(mut file: File) -> Result<File, Error> {
    file.seek(SeekFrom::Start(0)).map_err(not_kept)?;
    Ok(file)
}

fn not_kept(error: std::io::Error) -> Error {
    Error::failed(format!(
        "cannot keep what was fetched in the profile: {error}"
    ))
}
