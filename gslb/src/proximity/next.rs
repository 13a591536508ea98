//! What becomes of a client of whom nothing is known: what was tried, and what happens next (case G14).

use super::desk::Desk;
use crate::clock;
use portolan_balance::proximity::Prefix;
use portolan_probe::proximity::{Prober, Refusal};
use std::net::IpAddr;
use std::time::Duration;

impl Desk {
    /// In words, for `explain` and `proximity show`.
    pub(super) fn next(&self, address: IpAddr) -> String {
        let by_itself =
            if self.is_listening() { "; a TCP connection of this client would measure it" } else { "" };
        let Some(prober) = self.prober().filter(|_| self.policy.enabled) else {
            return format!("probing is off{by_itself}");
        };
        if let Err(refusal) = self.policy.addresses.check(address) {
            return format!("it is not probed: {}{by_itself}", words(refusal));
        }
        let prefix = self.lengths().prefix_of(address);
        if let Some(tried) = tried(prober, &prefix) {
            return tried;
        }
        match self.recent.get(&prefix) {
            Some(Ok(()) | Err(Refusal::Waiting | Refusal::TooSoon)) => "a probe is queued".into(),
            Some(Err(refusal)) => format!("not probed yet: {}{by_itself}", words(refusal)),
            None => format!("its queries will have it probed, once they show that it is there{by_itself}"),
        }
    }

    fn is_listening(&self) -> bool {
        self.passive().is_some()
    }
}

fn tried(prober: &Prober, prefix: &Prefix) -> Option<String> {
    let (standing, ago, left) = prober.standing(prefix)?;
    let at = time_of_day(clock::unix_s().saturating_sub(ago.as_secs()));
    let again = if left.is_zero() {
        "its next query has it probed again".into()
    } else {
        format!("left alone for {} more", length(left))
    };
    Some(match standing.silent_rounds {
        0 => format!("it was probed at {at}; {again}"),
        count => format!("no RTT: probe failed {count}x, last {at}; {again}"),
    })
}

/// `12:00:03 UTC`.
fn time_of_day(unix_s: u64) -> String {
    let s = unix_s % 86_400;
    format!("{:02}:{:02}:{:02} UTC", s / 3600, s / 60 % 60, s % 60)
}

fn length(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7199 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

/// Why somebody is not probed.
fn words(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Off => "probing is off",
        Refusal::Unspecified
        | Refusal::Loopback
        | Refusal::LinkLocal
        | Refusal::Multicast
        | Refusal::Broadcast => "the address is no host of the network",
        Refusal::Private => "the address is private; `active.also` lets some of these be probed",
        Refusal::Documentation => {
            "the address is for documentation; `active.also` lets some of these be probed"
        }
        Refusal::Bogon => "the address is reserved; `active.also` lets some of these be probed",
        Refusal::Own => "the address is one of ours",
        Refusal::Anycast => "the address is served from many places",
        Refusal::OptedOut => "it is opted out by `active.exclude`",
        Refusal::NotEarned => {
            "it has not shown to be there, by TCP, a DNS cookie, or 3 queries over a second"
        }
        Refusal::UntrustedSubnet => {
            "its resolver is none of those whose word on subnets is taken, `dns.ecs.allow`"
        }
        Refusal::WrongPrefix => "its address is not in the prefix",
        Refusal::Waiting => "it waits for its turn",
        Refusal::TooSoon => "it was probed a short while ago",
        Refusal::BackedOff => "it was silent too often",
        Refusal::QueueFull => "too many wait",
        Refusal::TableFull => "too many prefixes are watched",
        Refusal::WaitedTooLong => "its turn did not come in time",
        Refusal::PeerRate => "the peer asks too much",
        Refusal::NoPoint => "no address of this site is of its family",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time_of_day(1_700_000_003), "22:13:23 UTC");
        for (s, text) in [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (86_399, "23 h")] {
            assert_eq!(length(Duration::from_secs(s)), text);
        }
        assert!(Refusal::ALL.iter().all(|refusal| !words(*refusal).is_empty()));
    }
}
