//! The config file: its exact form, its check and its compilation into policy.

pub mod tables;
