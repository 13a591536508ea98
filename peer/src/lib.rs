//! The peer protocol: how nodes at several sites tell each other what they know.
