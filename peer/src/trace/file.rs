//! Trace files.
//!
//! A file begins with `MAGIC`. Then come records, all numbers big-endian: length of what follows (u32), milliseconds
//! since 1970 (u64), direction (u8: 0 received, 1 sent), connection (u64), length of the peer's name (u8), the name, the
//! frame. Frames are never split over files, so each file can be read alone.

use super::{Direction, Record};
use crate::codec::{HEADER, MAX_BODY};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// First octets of a file; the last one is the version.
const MAGIC: &[u8; 16] = b"portolan-trace\n\x01";
/// Octets of a record before the name.
const FIXED: usize = 8 + 1 + 8 + 1;
/// No record is longer.
const MAX_RECORD: usize = FIXED + 255 + HEADER + MAX_BODY;
/// Records that wait for the disk.
const WAITING: usize = 1_024;
/// How long records may wait in memory before they are written.
const FLUSH: Duration = Duration::from_millis(200);

/// Where frames are written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// The file. When it is full it becomes `FILE.1`, that one `FILE.2`, and so on.
    pub path: PathBuf,
    /// Octets of a file.
    pub max_bytes: u64,
    /// Full files that are kept.
    pub keep: u32,
}

impl FileSettings {
    /// 64 MiB, and as much again of the past.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), max_bytes: 64 << 20, keep: 1 }
    }
}

/// Writes records on a thread of its own.
#[derive(Debug)]
pub(super) struct Sink {
    records: SyncSender<Record>,
    dropped: Arc<AtomicU64>,
}

impl Sink {
    pub(super) fn open(settings: FileSettings) -> io::Result<Self> {
        let out = Out::open(settings)?;
        let (records, waiting) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = dropped.clone();
        std::thread::Builder::new().name("peer-trace".into()).spawn(move || run(out, &waiting, &counter))?;
        Ok(Self { records, dropped })
    }

    pub(super) fn write(&self, record: Record) {
        if self.records.try_send(record).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

fn run(mut out: Out, records: &Receiver<Record>, dropped: &AtomicU64) {
    let mut is_told = false;
    let mut flushed = Instant::now();
    loop {
        let done = match records.recv_timeout(FLUSH) {
            Ok(record) if flushed.elapsed() < FLUSH => out.write(&record),
            Ok(record) => {
                flushed = Instant::now();
                out.write(&record).and_then(|()| out.flush())
            }
            Err(RecvTimeoutError::Timeout) => out.flush(),
            Err(RecvTimeoutError::Disconnected) => {
                let _ = out.flush();
                return;
            }
        };
        match done {
            Ok(()) => is_told = false,
            Err(error) => {
                dropped.fetch_add(1, Ordering::Relaxed);
                // a full disk loses the trace, not the peers; it is tried again with the next record
                if !std::mem::replace(&mut is_told, true) {
                    let file = out.settings.path.display().to_string();
                    tracing::warn!(%error, file, "the trace of peers' frames cannot be written; records are lost");
                }
                out.file = None;
            }
        }
    }
}

struct Out {
    settings: FileSettings,
    file: Option<BufWriter<File>>,
    bytes: u64,
}

impl Out {
    /// A trace of before is put aside like a full one.
    fn open(settings: FileSettings) -> io::Result<Self> {
        let mut out = Self { settings, file: None, bytes: 0 };
        out.start()?;
        Ok(out)
    }

    fn start(&mut self) -> io::Result<()> {
        self.file = None;
        rotate(&self.settings);
        let path = &self.settings.path;
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut file = BufWriter::new(file);
        file.write_all(MAGIC)?;
        file.flush()?;
        self.file = Some(file);
        self.bytes = MAGIC.len() as u64;
        Ok(())
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        let record = encode(record);
        let length = record.len() as u64;
        if self.file.is_none() || self.bytes + length > self.settings.max_bytes {
            self.start()?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(&record)?;
            self.bytes += length;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// `FILE` becomes `FILE.1`, `FILE.1` becomes `FILE.2`, up to what is kept. An empty or foreign file stays where it is.
fn rotate(settings: &FileSettings) {
    let FileSettings { path, keep, .. } = settings;
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    if *keep == 0 || !path.metadata().is_ok_and(|found| found.is_file() && found.len() > MAGIC.len() as u64) {
        return;
    }
    for number in (1..*keep).rev() {
        let _ = std::fs::rename(numbered(number), numbered(number + 1));
    }
    let _ = std::fs::rename(path, numbered(1));
}

fn encode(record: &Record) -> Vec<u8> {
    let Record { at_unix_ms, direction, peer, conn, octets } = record;
    let name = peer.as_bytes();
    let name = name.get(..255).unwrap_or(name);
    let octets = octets.get(..HEADER + MAX_BODY).unwrap_or(octets);
    let mut out = Vec::with_capacity(4 + FIXED + name.len() + octets.len());
    out.extend_from_slice(&((FIXED + name.len() + octets.len()) as u32).to_be_bytes());
    out.extend_from_slice(&at_unix_ms.to_be_bytes());
    out.push(match direction {
        Direction::Received => 0,
        Direction::Sent => 1,
    });
    out.extend_from_slice(&conn.to_be_bytes());
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    out.extend_from_slice(octets);
    out
}

/// Why a trace cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file system refused.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another kind of file.
    #[error("{} is no trace of peers' frames; `[peers] trace` makes a node write one", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
    },
    /// It ends within a record: the node still writes it, or was killed.
    #[error("the last record is cut: the node still writes the file, or was killed")]
    Cut,
    /// A record that cannot be.
    #[error("record {number} is damaged; what follows cannot be read")]
    Damaged {
        /// Counted from 1.
        number: u64,
    },
}

/// Reads a trace.
pub struct Records {
    file: BufReader<File>,
    number: u64,
    is_done: bool,
}

impl Records {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::File { path: path.to_owned(), source };
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let mut magic = [0; MAGIC.len()];
        match file.read_exact(&mut magic) {
            Ok(()) if magic == *MAGIC => Ok(Self { file, number: 0, is_done: false }),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(failed(error)),
            Ok(()) | Err(_) => Err(TraceError::NotATrace { path: path.to_owned() }),
        }
    }

    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        let mut length = [0; 4];
        match self.file.read(&mut length[..1]) {
            Ok(1) => {}
            Ok(_) => return Ok(None),
            Err(_) => return Err(TraceError::Cut),
        }
        let (_, rest) = length.split_at_mut(1);
        self.file.read_exact(rest).map_err(|_| TraceError::Cut)?;
        let length = u32::from_be_bytes(length) as usize;
        let damaged = TraceError::Damaged { number: self.number };
        if !(FIXED..=MAX_RECORD).contains(&length) {
            return Err(damaged);
        }
        let mut octets = vec![0; length];
        self.file.read_exact(&mut octets).map_err(|_| TraceError::Cut)?;
        decode(&octets).map(Some).ok_or(damaged)
    }
}

fn decode(octets: &[u8]) -> Option<Record> {
    let (at_unix_ms, rest) = octets.split_first_chunk()?;
    let (&direction, rest) = rest.split_first()?;
    let (conn, rest) = rest.split_first_chunk()?;
    let (&length, rest) = rest.split_first()?;
    let (peer, octets) = rest.split_at_checked(usize::from(length))?;
    let direction = match direction {
        0 => Direction::Received,
        1 => Direction::Sent,
        _ => return None,
    };
    Some(Record {
        at_unix_ms: u64::from_be_bytes(*at_unix_ms),
        direction,
        peer: String::from_utf8_lossy(peer).into_owned(),
        conn: u64::from_be_bytes(*conn),
        octets: octets.to_vec(),
    })
}

impl Iterator for Records {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        self.number += 1;
        let read = self.read().transpose();
        self.is_done = !matches!(read, Some(Ok(_)));
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Record {
        let direction = if number.is_multiple_of(2) { Direction::Received } else { Direction::Sent };
        let octets = vec![number as u8; 100];
        Record {
            at_unix_ms: 1_796_083_200_000 + number,
            direction,
            peer: "fra1".into(),
            conn: number,
            octets,
        }
    }

    fn read(path: &Path) -> Vec<Record> {
        Records::open(path).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn files_are_bounded_and_each_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.trace");
        let mut out = Out::open(FileSettings { path: path.clone(), max_bytes: 1_000, keep: 2 }).unwrap();
        for number in 0..40 {
            out.write(&record(number)).unwrap();
        }
        out.flush().unwrap();
        let mut all = Vec::new();
        for name in ["peers.trace.2", "peers.trace.1", "peers.trace"] {
            let path = folder.path().join(name);
            assert!(path.metadata().unwrap().len() <= 1_000, "{name}");
            all.extend(read(&path));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
        let first = 40 - all.len() as u64;
        assert_eq!(all, (first..40).map(record).collect::<Vec<_>>());
        assert!(all.len() > 15, "{}", all.len());
    }

    #[test]
    fn a_restart_puts_the_old_trace_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.trace");
        for number in 0..2 {
            let mut out = Out::open(FileSettings::new(&path)).unwrap();
            out.write(&record(number)).unwrap();
        }
        assert_eq!(read(&path), [record(1)]);
        assert_eq!(read(&folder.path().join("peers.trace.1")), [record(0)]);
    }

    #[test]
    fn cut_damaged_and_foreign_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.trace");
        let mut out = Out::open(FileSettings::new(&path)).unwrap();
        for number in 0..3 {
            out.write(&record(number)).unwrap();
        }
        drop(out);
        let good = std::fs::read(&path).unwrap();
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).unwrap();
            match Records::open(&path) {
                Err(error) => {
                    assert!(
                        length < MAGIC.len() && matches!(error, TraceError::NotATrace { .. }),
                        "{length}: {error}"
                    );
                }
                Ok(records) => {
                    let (whole, bad): (Vec<_>, Vec<_>) = records.partition(Result::is_ok);
                    let per_record = (good.len() - MAGIC.len()) / 3;
                    assert_eq!(whole.len(), (length - MAGIC.len()) / per_record, "{length}");
                    assert_eq!(
                        bad.len(),
                        usize::from(!(length - MAGIC.len()).is_multiple_of(per_record)),
                        "{length}"
                    );
                }
            }
        }
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2_000 {
            let mut bad = good.clone();
            let at = random.usize(MAGIC.len()..bad.len());
            bad[at] ^= 1 << random.u32(0..8);
            std::fs::write(&path, &bad).unwrap();
            assert!(Records::open(&path).unwrap().count() <= 4, "seed {seed}");
        }
        assert!(matches!(Records::open(folder.path()), Err(TraceError::File { .. })));
    }

    #[test]
    fn a_disk_that_fails_loses_records_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let sink = Sink::open(FileSettings { path: inner.join("t"), max_bytes: 0, keep: 1 }).unwrap();
        std::fs::remove_dir_all(&inner).unwrap();
        for number in 0..10 {
            sink.write(record(number));
        }
        let end = Instant::now() + Duration::from_secs(10);
        while sink.dropped() < 10 {
            assert!(Instant::now() < end, "{} dropped", sink.dropped());
            std::thread::yield_now();
        }
    }
}
