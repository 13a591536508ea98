//! The control API: types, routes and client.
