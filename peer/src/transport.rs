//! Real connections under a mesh: QUIC, and TCP with TLS where UDP does not pass.
