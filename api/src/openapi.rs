//! The OpenAPI document, from the same types and routes. `api/openapi.json` is its copy in git.

use crate::{routes, types::*};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(title = "Portolan control API", description = "Asks and steers one node."),
    paths(
        routes::version,
        routes::status,
        routes::services,
        routes::checks,
        routes::explain,
        routes::forced,
        routes::force,
        routes::load,
        routes::reload,
        routes::lookup,
        routes::peers,
        routes::frames,
        routes::proximity,
        routes::proximity_export,
        routes::proximity_set,
        routes::metrics,
        routes::openapi
    ),
    components(schemas(ApiError, Problem))
)]
struct Document;

/// The document as JSON with a final newline.
#[must_use]
pub fn document() -> String {
    let mut text = Document::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
