//! Keys, certificates and pins of nodes.
