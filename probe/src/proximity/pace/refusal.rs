//! Why a wish for a probe is not granted.

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why somebody is not probed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refusal {
            $($(#[$doc])* $name,)*
        }

        impl Refusal {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// As metrics and people call it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

refusals! {
    /// Probing is off.
    Off = "off",
    /// No address at all.
    Unspecified = "unspecified",
    /// The machine itself.
    Loopback = "loopback",
    /// A private network.
    Private = "private",
    /// One wire only.
    LinkLocal = "link-local",
    /// Many hosts.
    Multicast = "multicast",
    /// All hosts.
    Broadcast = "broadcast",
    /// An example.
    Documentation = "documentation",
    /// Reserved, or not given out.
    Bogon = "bogon",
    /// Ours.
    Own = "own",
    /// Served from many places.
    Anycast = "anycast",
    /// Does not want it.
    OptedOut = "opted-out",
    /// Has not shown to be where it says it is.
    NotEarned = "not-earned",
    /// Named as a client by a resolver whose word is not taken.
    UntrustedSubnet = "untrusted-subnet",
    /// The address does not lie in the prefix it is to stand for.
    WrongPrefix = "wrong-prefix",
    /// Waits already, or is being measured.
    Waiting = "waiting",
    /// Was probed a short while ago.
    TooSoon = "too-soon",
    /// Has been silent, and is left alone for longer.
    BackedOff = "backed-off",
    /// Too many wait.
    QueueFull = "queue-full",
    /// Too many prefixes are watched.
    TableFull = "table-full",
    /// The wish has waited too long for its turn.
    WaitedTooLong = "waited-too-long",
    /// A peer asks too much.
    PeerRate = "peer-rate",
    /// No point of this site has an address of this family.
    NoPoint = "no-point",
}
