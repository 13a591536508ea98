//! The load source: keeps a window of queries in flight at one server and checks every reply.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::Result;
use crate::queries::{Expect, GROUP, Pool};
use crate::socket::{self, Batch};

/// Queries in flight at full load. A default socket buffer holds about 246 datagrams of this size, but the kernel gives room
/// back only when a quarter of the buffer has been read, so 184 are safe.
const FULL_WINDOW: usize = 160;
/// Ids there are, so queries that can be told apart.
const IDS: usize = 1 << 16;
/// When nothing comes for so long, all that is in flight is lost: long, for on a busy machine a server may have to wait for
/// its core.
const PATIENCE: Duration = Duration::from_millis(500);
/// A query is lost when so many later ones were sent: many windows, far less than there are ids.
const LATER: usize = 1 << 11;

/// How deep the load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// The server always finds a full batch: groups of 64, as many as a default socket buffer holds.
    Full,
    /// 16 in flight, sent singly as they come back.
    Shallow,
}

/// What the replies were like.
#[derive(Debug, Default, Clone, Copy, serde::Serialize)]
pub struct Tally {
    /// Queries sent.
    pub sent: u64,
    /// Replies as expected, NOERROR.
    pub no_error: u64,
    /// Replies as expected, NXDOMAIN.
    pub no_name: u64,
    /// Replies that were not what they should be.
    pub wrong: u64,
    /// Queries without a reply.
    pub lost: u64,
    /// Wall time.
    pub seconds: f64,
}

impl Tally {
    /// Queries answered as expected.
    pub fn answered(&self) -> u64 {
        self.no_error + self.no_name
    }

    /// Refuses a burst of which less than 99 % was answered as expected.
    ///
    /// # Errors
    /// Says how many of how many.
    pub fn check(&self) -> Result<()> {
        let all = self.answered() + self.wrong + self.lost;
        if self.answered() == 0 || self.answered() * 100 < all * 99 {
            return Err(format!(
                "only {} of {all} queries answered as expected ({} wrong, {} lost)",
                self.answered(),
                self.wrong,
                self.lost
            )
            .into());
        }
        Ok(())
    }
}

/// A client of one server.
pub struct Load<'pool> {
    pool: &'pool Pool,
    socket: UdpSocket,
    replies: Batch,
    depth: Depth,
    echo: bool,
    next: usize,
    in_flight: usize,
    outstanding: Vec<bool>,
}

impl<'pool> Load<'pool> {
    /// Connects to `server`. An `echo`'s replies carry no answers, so only id and question are checked.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn new(server: SocketAddr, pool: &'pool Pool, depth: Depth, echo: bool) -> io::Result<Self> {
        Ok(Self {
            pool,
            socket: socket::client(server, PATIENCE)?,
            replies: Batch::new(GROUP),
            depth,
            echo,
            next: 0,
            in_flight: 0,
            outstanding: vec![false; IDS],
        })
    }

    /// Starts at another place in the pool.
    pub fn start_at(&mut self, sequence: usize) {
        self.next = sequence;
    }

    /// Keeps the window full for `length`; what is in flight stays so between two runs.
    ///
    /// # Errors
    /// When the socket fails, for one because the server is gone.
    pub fn run(&mut self, length: Duration) -> io::Result<Tally> {
        let mut tally = Tally::default();
        let start = Instant::now();
        while start.elapsed() < length {
            self.fill_window(&mut tally)?;
            match self.replies.receive(&self.socket) {
                Ok(count) => (0..count).for_each(|index| self.take(index, &mut tally)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.give_up(&mut tally),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        tally.seconds = start.elapsed().as_secs_f64();
        Ok(tally)
    }

    fn fill_window(&mut self, tally: &mut Tally) -> io::Result<()> {
        let (window, batch) = match self.depth {
            Depth::Full => (FULL_WINDOW, GROUP),
            Depth::Shallow => (16, 1),
        };
        while window - self.in_flight >= batch {
            let (packets, length) = self.pool.packets(self.next, window - self.in_flight);
            match self.depth {
                Depth::Full => socket::send_segmented(&self.socket, packets, length)?,
                Depth::Shallow => socket::send_each(&self.socket, packets, length)?,
            }
            for _ in 0..packets.len() / length {
                if std::mem::replace(&mut self.outstanding[self.next.wrapping_sub(LATER) % IDS], false) {
                    self.in_flight -= 1;
                    tally.lost += 1;
                }
                self.outstanding[self.next % IDS] = true;
                self.next += 1;
                self.in_flight += 1;
                tally.sent += 1;
            }
        }
        Ok(())
    }

    /// Finds the reply's query by its id: the last one sent with it.
    fn take(&mut self, index: usize, tally: &mut Tally) {
        let reply = self.replies.datagram(index);
        let Some(&[high, low]) = reply.get(..2).and_then(|id| <&[u8; 2]>::try_from(id).ok()) else {
            tally.wrong += 1;
            return;
        };
        let id = usize::from(u16::from_be_bytes([high, low]));
        if !std::mem::replace(&mut self.outstanding[id], false) {
            return; // a second reply, or one that was given up
        }
        self.in_flight -= 1;
        let last = self.next - 1;
        let (question, expect) = self.pool.question(last - (last.wrapping_sub(id) % IDS));
        match verdict(reply, question, expect, self.echo) {
            Some(Expect::Answer) => tally.no_error += 1,
            Some(Expect::NoName) => tally.no_name += 1,
            None => tally.wrong += 1,
        }
    }

    fn give_up(&mut self, tally: &mut Tally) {
        tally.lost += self.in_flight as u64;
        self.in_flight = 0;
        self.outstanding.fill(false);
    }
}

/// What the reply is, if it is one to this question and as expected.
fn verdict(reply: &[u8], question: &[u8], expect: Expect, echo: bool) -> Option<Expect> {
    let is_reply = reply.get(2)? & 0x80 != 0 && reply.get(12..question.len())? == &question[12..];
    let records = u16::from_be_bytes([*reply.get(6)?, *reply.get(7)?]);
    let as_expected = match (reply.get(3)? & 0x0f, expect) {
        _ if echo => true,
        (0, Expect::Answer) => records > 0,
        (3, Expect::NoName) => true,
        _ => false,
    };
    (is_reply && as_expected).then_some(expect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::{Popularity, packet};

    #[test]
    fn replies_are_judged() {
        let question = &packet("n0000", 1, false, None)[..];
        let reply = |change: &[(usize, u8)]| {
            let mut reply = question.to_vec();
            (reply[2], reply[7]) = (0x84, 1);
            change.iter().for_each(|&(place, value)| reply[place] = value);
            reply
        };
        let cases: [(&str, Vec<u8>, Expect, bool, bool); 8] = [
            ("an answer", reply(&[]), Expect::Answer, false, true),
            ("no QR", reply(&[(2, 0)]), Expect::Answer, false, false),
            ("no record", reply(&[(7, 0)]), Expect::Answer, false, false),
            ("SERVFAIL", reply(&[(3, 2)]), Expect::Answer, false, false),
            ("NXDOMAIN", reply(&[(3, 3), (7, 0)]), Expect::NoName, false, true),
            ("an answer for an absent name", reply(&[]), Expect::NoName, false, false),
            ("another question", reply(&[(14, b'x')]), Expect::Answer, false, false),
            ("an echo", reply(&[(7, 0)]), Expect::NoName, true, true),
        ];
        for (name, reply, expect, echo, good) in cases {
            assert_eq!(verdict(&reply, question, expect, echo).is_some(), good, "{name}");
        }
        assert_eq!(verdict(&[0; 5], question, Expect::Answer, false), None);
    }

    #[test]
    fn a_full_and_a_shallow_load_get_their_replies_from_an_echo() {
        let pool = Pool::of_static_names(1, Popularity::Uniform);
        for depth in [Depth::Full, Depth::Shallow] {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = server.local_addr().unwrap();
            std::thread::spawn(move || {
                let mut batch = Batch::new(32);
                while let Ok(count) = batch.receive(&server) {
                    (0..count).for_each(|index| batch.datagram_mut(index)[2] |= 0x80);
                    batch.send_back(&server, count).unwrap();
                }
            });
            let mut load = Load::new(address, &pool, depth, true).unwrap();
            load.start_at(65_500);
            let tally = load.run(Duration::from_millis(200)).unwrap();
            tally.check().unwrap();
            assert!(tally.answered() > 100, "{tally:?}");
            assert_eq!(tally.wrong, 0, "{tally:?}");
        }
    }

    #[test]
    fn single_losses_are_counted_and_do_not_stall_the_window() {
        let pool = Pool::of_static_names(1, Popularity::Uniform);
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut load = Load::new(server.local_addr().unwrap(), &pool, Depth::Full, true).unwrap();
        std::thread::spawn(move || {
            let mut batch = Batch::new(1);
            let mut seen = 0u32;
            while batch.receive(&server).is_ok() {
                seen += 1;
                batch.datagram_mut(0)[2] |= 0x80;
                if !seen.is_multiple_of(1_000) {
                    batch.send_back(&server, 1).unwrap();
                }
            }
        });
        let mut total = Tally::default();
        for _ in 0..20 {
            let tally = load.run(Duration::from_millis(100)).unwrap();
            (total.no_error, total.no_name, total.lost) =
                (total.no_error + tally.no_error, total.no_name + tally.no_name, total.lost + tally.lost);
            if total.lost >= 5 {
                break;
            }
        }
        assert!(total.lost >= 5, "{total:?}");
        total.check().unwrap();
    }

    #[test]
    fn a_silent_server_is_refused() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let pool = Pool::of_static_names(1, Popularity::Uniform);
        let mut load = Load::new(server.local_addr().unwrap(), &pool, Depth::Full, false).unwrap();
        let tally = load.run(Duration::from_millis(600)).unwrap();
        assert!(tally.lost >= 128, "{tally:?}");
        assert!(tally.check().is_err());
    }
}
