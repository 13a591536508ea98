//! A seeded world over the pure cores: how good the decisions are, and what agreement costs.
