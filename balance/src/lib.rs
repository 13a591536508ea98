//! The decision: pure code that picks sites, links and servers.
