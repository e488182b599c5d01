//! One growing file and the facts that its lines add up to. It reads new bytes only, notices when the file
//! is no longer the one it was, and of an old large file reads just the head and the tail.

use super::lines::{LINE_MAX, Line, Lines};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use teamlamp_wire::Millis;

/// How far the head is read for a file to say who it is.
const HEAD_BYTES: u64 = 1 << 20;
/// How much of the end is read first; four times as much each time while that tells no turn.
const TAIL_BYTES: u64 = 256 << 10;
/// How much of the end is read at most.
const TAIL_MOST_BYTES: u64 = 16 << 20;
/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// How much of the beginning is compared to notice that another file took this one's place.
const PRINT_BYTES: usize = 1 << 10;
/// How much before the place of reading is compared to notice a file cut off and grown again.
const SEAM_BYTES: usize = 64;

/// What lines add up to.
pub(super) trait Facts: Clone + Default {
    /// Takes the next line.
    fn line(&mut self, line: Line<'_>);
    /// Whether the head said whose file it is, so that reading may go on at its tail.
    fn identified(&self) -> bool;
    /// Lines were left out here: what they could have changed is unknown from now on.
    fn gap(&mut self);
    /// Whether the lines since the gap tell the turn.
    fn tells_turn(&self) -> bool;
}

/// What decides whether a file has to be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    id: (u64, u64),
    bytes: u64,
    modified: Option<std::time::SystemTime>,
}

impl Stat {
    fn of(meta: &Metadata) -> Self {
        Self { id: file_id(meta), bytes: meta.len(), modified: meta.modified().ok() }
    }
}

#[cfg(unix)]
pub(super) fn file_id(meta: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

/// Without inodes the time of making is the best identity that the standard library gives.
#[cfg(not(unix))]
pub(super) fn file_id(meta: &Metadata) -> (u64, u64) {
    let made = meta.created().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    (made.map_or(0, |d| d.as_secs()), made.map_or(0, |d| u64::from(d.subsec_nanos())))
}

/// When a file was last written, by the wall clock.
pub(super) fn modified_ms(meta: &Metadata) -> Option<Millis> {
    let since = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Millis::try_from(since.as_millis()).ok()
}

/// One file and its facts.
#[derive(Clone, Debug)]
pub(super) struct Tail<F> {
    path: PathBuf,
    facts: F,
    lines: Lines,
    stat: Option<Stat>,
    /// All bytes before this were given to `lines`.
    position: u64,
    print: Vec<u8>,
    seam: Vec<u8>,
    bytes_read: u64,
}

impl<F: Facts> Tail<F> {
    /// A file that was not read yet.
    pub(super) fn new(path: PathBuf) -> Self {
        let lines = Lines::new(LINE_MAX);
        let (print, seam) = (Vec::new(), Vec::new());
        Self { path, facts: F::default(), lines, stat: None, position: 0, print, seam, bytes_read: 0 }
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What its lines add up to so far.
    pub(super) fn facts(&self) -> &F {
        &self.facts
    }

    /// All bytes that were ever read: what bounded reading is tested by.
    #[cfg(test)]
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads what is new; begins again where the file is not the one it was.
    ///
    /// # Errors
    /// What the operating system says; `NotFound` where the file vanished. Facts stay as they were.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
        let meta = std::fs::metadata(&self.path)?;
        if !meta.is_file() {
            // Opening a pipe would wait for its writer.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if self.stat == Some(Stat::of(&meta)) {
            return Ok(());
        }
        let mut file = File::open(&self.path)?;
        let stat = Stat::of(&file.metadata()?);
        if self.goes_on(&mut file, stat)? {
            self.read_to(&mut file, stat.bytes)?;
        } else {
            let bytes_read = self.bytes_read;
            *self = Self { bytes_read, ..Self::new(std::mem::take(&mut self.path)) };
            self.first_sight(&mut file, stat.bytes)?;
        }
        self.stat = Some(stat);
        Ok(())
    }

    /// Whether this is the file of last time, only longer: what was read is where it was.
    fn goes_on(&self, file: &mut File, stat: Stat) -> io::Result<bool> {
        let Some(before) = self.stat else { return Ok(false) };
        if before.id != stat.id {
            return Ok(false);
        }
        let seam_at = self.position - self.seam.len() as u64;
        Ok(holds(file, 0, &self.print)? && holds(file, seam_at, &self.seam)?)
    }

    fn first_sight(&mut self, file: &mut File, bytes: u64) -> io::Result<()> {
        while self.position < bytes.min(HEAD_BYTES) && !self.facts.identified() {
            let to = (self.position + CHUNK_BYTES as u64).min(bytes);
            self.read_to(file, to)?;
        }
        let (head, mut window) = (self.clone(), TAIL_BYTES);
        while bytes - head.position > window {
            // One byte earlier than the window: where that is a line's end, the next line is whole.
            self.facts.gap();
            self.lines = Lines::from_the_middle(LINE_MAX);
            self.position = bytes - window - 1;
            self.read_to(file, bytes)?;
            if self.facts.tells_turn() || window >= TAIL_MOST_BYTES {
                return Ok(());
            }
            let bytes_read = self.bytes_read;
            *self = Self { bytes_read, ..head.clone() };
            window *= 4;
        }
        self.read_to(file, bytes)
    }

    fn read_to(&mut self, file: &mut File, end: u64) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.position))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.position < end {
            let wanted = usize::try_from(end - self.position).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            let got = file.read(&mut chunk[..wanted])?;
            if got == 0 {
                break;
            }
            self.take(&chunk[..got]);
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.position == self.print.len() as u64 {
            let room = PRINT_BYTES - self.print.len();
            self.print.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        self.seam.extend_from_slice(&bytes[bytes.len().saturating_sub(SEAM_BYTES)..]);
        self.seam.drain(..self.seam.len().saturating_sub(SEAM_BYTES));
        let facts = &mut self.facts;
        self.lines.feed(bytes, |line| facts.line(line));
        self.position += bytes.len() as u64;
        self.bytes_read += bytes.len() as u64;
    }
}

/// Whether `expected` is what the file holds at `at`.
fn holds(file: &mut File, at: u64, expected: &[u8]) -> io::Result<bool> {
    let mut found = vec![0; expected.len()];
    file.seek(SeekFrom::Start(at))?;
    match file.read_exact(&mut found) {
        Ok(()) => Ok(found == expected),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// The facts of bytes that come in pieces, as they do while a harness writes.
#[cfg(test)]
pub(super) fn fed_in_pieces<F: Facts>(bytes: &[u8], mut cuts: Vec<usize>) -> F {
    let (mut lines, mut facts, mut from) = (Lines::new(LINE_MAX), F::default(), 0);
    cuts.sort_unstable();
    cuts.push(bytes.len());
    for to in cuts.into_iter().map(|cut| cut.min(bytes.len())) {
        lines.feed(&bytes[from..to], |line| facts.line(line));
        from = to;
    }
    facts
}

#[cfg(test)]
mod tests;
