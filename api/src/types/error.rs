//! What an unsuccessful request returns.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request failed, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiError {
    /// The HTTP status it is sent with; 0 in the output of commands when no node answered.
    pub status: u16,
    /// What went wrong.
    pub error: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The problems of a config that was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// The problems as they would be printed, with the lines they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<String>,
}

/// One problem of a config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `error` or `warning`.
    pub level: String,
    /// Its kind, a stable word: `unknown-key`.
    pub code: String,
    /// The file it is in.
    pub file: String,
    /// Line, from 1; 0 when it is about no line.
    pub line: u32,
    /// Column, from 1; 0 when it is about no column.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl ApiError {
    /// A request that makes no sense (400).
    pub fn bad_request(error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(400, error, Some(remedy.into()))
    }

    /// Something that does not exist (404).
    pub fn not_found(error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(404, error, Some(remedy.into()))
    }

    /// A config that was refused (422).
    pub fn refused(error: impl Into<String>, problems: Vec<Problem>, rendered: String) -> Self {
        Self { problems, rendered: Some(rendered), ..Self::new(422, error, None) }
    }

    /// A fault of the node (500).
    pub fn internal(error: impl Into<String>) -> Self {
        Self::new(500, error, Some("the node's log says more".into()))
    }

    /// Any error.
    pub fn new(status: u16, error: impl Into<String>, remedy: Option<String>) -> Self {
        Self { status, error: error.into(), remedy, problems: Vec::new(), rendered: None }
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.error)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "\n  help: {remedy}")?;
        }
        if let Some(rendered) = &self.rendered {
            write!(f, "\n{}", rendered.trim_end())?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}
