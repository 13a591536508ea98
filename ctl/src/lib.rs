//! The commands that talk to a running node, over its API only.
//!
//! ```text
//! args ─► run ─► api::Client ─► node
//!          └──► print (people) or JSON (programs) ─► stdout, exit code
//! ```
//! [`args`] is the one definition of options and help; [`run`] does a command; [`print`](mod@print) shows what came back, also
//! for the offline commands of the daemon; [`output`] writes it and knows the [`Exit`] codes.

pub mod args;
pub mod output;
pub mod print;
pub mod run;
mod time;

pub use args::{Online, Peers, Reach};
pub use output::{Exit, Paint};
pub use run::run;
