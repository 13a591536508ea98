//! The control API: types, routes and client.
//!
//! ```text
//! CLI, console, scripts ─► Client ─► unix socket (or TCP with a token) ─► router ─► Node (the daemon)
//!                            └────────────── types ──────────────┘
//! ```
//! [`types`] are what travels, written once for both ends and for the OpenAPI document ([`openapi`]).
//! [`routes`] turns requests into calls of a [`Node`]; [`serve`] listens; [`client`] asks.

mod bounded;
pub mod client;
mod lines;
pub mod openapi;
pub mod routes;
pub mod serve;
pub mod types;

pub use client::{Client, ClientError, Endpoint};
pub use routes::{Node, router};
pub use types::*;

/// Where a packaged node listens, unless its config or `PORTOLAN_SOCKET` says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/portolan/portolan.sock";

/// Version of the API: grows when something incompatible changes.
pub const API_VERSION: u32 = 1;
