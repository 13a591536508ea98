//! Requests to calls of a [`Node`].

use crate::types::*;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What a daemon offers to its API. Calls may block for a short time; [`Node::reload`] for as long as loading takes.
pub trait Node: Send + Sync + 'static {
    /// The node in one look.
    fn status(&self) -> Result<Status, ApiError>;
    /// The services whose name matches.
    fn services(&self, query: &ServicesQuery) -> Result<Vec<ServiceStatus>, ApiError>;
    /// All checks.
    fn checks(&self) -> Result<Vec<CheckStatus>, ApiError>;
    /// What would be answered, and why.
    fn explain(&self, query: &ExplainQuery) -> Result<Explained, ApiError>;
    /// All forced states.
    fn forced(&self) -> Result<Vec<ForcedEntry>, ApiError>;
    /// Forces the state of members.
    fn force(&self, request: &ForceRequest) -> Result<ForceResult, ApiError>;
    /// Takes a load report.
    fn load(&self, report: &LoadReport) -> Result<LoadResult, ApiError>;
    /// Reads the config again.
    fn reload(&self) -> Result<ReloadResult, ApiError>;
    /// What the tables say of an address.
    fn lookup(&self, query: &LookupQuery) -> Result<TableLookup, ApiError>;
    /// The other nodes; none without `[peers]`.
    fn peers(&self) -> Result<Option<PeersStatus>, ApiError>;
    /// The frames between this node and its peers from now on.
    fn frames(&self, query: &FramesQuery) -> Result<mpsc::Receiver<FrameSeen>, ApiError>;
    /// What is known of clients' distances.
    fn proximity(&self, query: &ProximityQuery) -> Result<ProximityShown, ApiError>;
    /// All of it.
    fn proximity_export(&self) -> Result<Vec<ProximityPoint>, ApiError>;
    /// Writes a round-trip time, or takes it away.
    fn proximity_set(&self, request: &StaticRequest) -> Result<StaticResult, ApiError>;
    /// The metrics in OpenMetrics text form.
    fn metrics(&self) -> Result<String, ApiError>;
}

/// A node as the handlers share it.
pub type SharedNode = Arc<dyn Node>;

/// The routes of the API.
pub fn router(node: SharedNode) -> Router {
    Router::new()
        .route("/v1/version", get(version))
        .route("/v1/status", get(status))
        .route("/v1/services", get(services))
        .route("/v1/checks", get(checks))
        .route("/v1/explain", get(explain))
        .route("/v1/force", get(forced).post(force))
        .route("/v1/load", post(load))
        .route("/v1/reload", post(reload))
        .route("/v1/tables/lookup", get(lookup))
        .route("/v1/peers", get(peers))
        .route("/v1/peers/frames", get(frames))
        .route("/v1/proximity", get(proximity))
        .route("/v1/proximity/export", get(proximity_export))
        .route("/v1/proximity/static", post(proximity_set))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .fallback(|| async {
            ApiError::not_found("no such path", "GET /openapi.json lists the paths of this API")
        })
        .method_not_allowed_fallback(|| async {
            ApiError::new(
                405,
                "this path has no such method",
                Some("GET /openapi.json lists the methods".into()),
            )
        })
        .with_state(node)
}

/// The route of metrics alone.
pub(crate) fn metrics_router(node: SharedNode) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(node)
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self)).into_response()
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad_request(rejection.body_text(), "GET /openapi.json describes the parameters")
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        Self::bad_request(rejection.body_text(), "GET /openapi.json describes the body")
    }
}

/// The version of the program and of the API.
#[utoipa::path(get, path = "/v1/version", responses((status = 200, body = Version)))]
pub(crate) async fn version() -> Json<Version> {
    std::future::ready(Json(Version { version: env!("CARGO_PKG_VERSION").into(), api: crate::API_VERSION }))
        .await
}

/// The node in one look.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = Status)))]
pub(crate) async fn status(State(node): State<SharedNode>) -> Result<Json<Status>, ApiError> {
    off_loop(move || node.status()).await?.map(Json)
}

/// The services, with every member's state.
#[utoipa::path(get, path = "/v1/services", params(ServicesQuery),
    responses((status = 200, body = Vec<ServiceStatus>), (status = 404, body = ApiError)))]
pub(crate) async fn services(
    State(node): State<SharedNode>,
    query: Result<Query<ServicesQuery>, QueryRejection>,
) -> Result<Json<Vec<ServiceStatus>>, ApiError> {
    let Query(query) = query?;
    off_loop(move || node.services(&query)).await?.map(Json)
}

/// The health checks.
#[utoipa::path(get, path = "/v1/checks", responses((status = 200, body = Vec<CheckStatus>)))]
pub(crate) async fn checks(State(node): State<SharedNode>) -> Result<Json<Vec<CheckStatus>>, ApiError> {
    off_loop(move || node.checks()).await?.map(Json)
}

/// What would be answered to a query, and why.
#[utoipa::path(get, path = "/v1/explain", params(ExplainQuery),
    responses((status = 200, body = Explained), (status = 400, body = ApiError)))]
pub(crate) async fn explain(
    State(node): State<SharedNode>,
    query: Result<Query<ExplainQuery>, QueryRejection>,
) -> Result<Json<Explained>, ApiError> {
    let Query(query) = query?;
    off_loop(move || node.explain(&query)).await?.map(Json)
}

/// The forced states.
#[utoipa::path(get, path = "/v1/force", responses((status = 200, body = Vec<ForcedEntry>)))]
pub(crate) async fn forced(State(node): State<SharedNode>) -> Result<Json<Vec<ForcedEntry>>, ApiError> {
    off_loop(move || node.forced()).await?.map(Json)
}

/// Forces the state of members, or gives them back to their checks.
#[utoipa::path(post, path = "/v1/force", request_body = ForceRequest,
    responses((status = 200, body = ForceResult), (status = 404, body = ApiError)))]
pub(crate) async fn force(
    State(node): State<SharedNode>,
    request: Result<Json<ForceRequest>, JsonRejection>,
) -> Result<Json<ForceResult>, ApiError> {
    let Json(request) = request?;
    off_loop(move || node.force(&request)).await?.map(Json)
}

/// Reports the load of members.
#[utoipa::path(post, path = "/v1/load", request_body = LoadReport,
    responses((status = 200, body = LoadResult), (status = 404, body = ApiError)))]
pub(crate) async fn load(
    State(node): State<SharedNode>,
    report: Result<Json<LoadReport>, JsonRejection>,
) -> Result<Json<LoadResult>, ApiError> {
    let Json(report) = report?;
    off_loop(move || node.load(&report)).await?.map(Json)
}

/// Reads the config again; on any error the one in force stays.
#[utoipa::path(post, path = "/v1/reload",
    responses((status = 200, body = ReloadResult), (status = 422, body = ApiError)))]
pub(crate) async fn reload(State(node): State<SharedNode>) -> Result<Json<ReloadResult>, ApiError> {
    off_loop(move || node.reload()).await?.map(Json)
}

/// What the prefix tables say of an address, and in which line.
#[utoipa::path(get, path = "/v1/tables/lookup", params(LookupQuery),
    responses((status = 200, body = TableLookup), (status = 400, body = ApiError)))]
pub(crate) async fn lookup(
    State(node): State<SharedNode>,
    query: Result<Query<LookupQuery>, QueryRejection>,
) -> Result<Json<TableLookup>, ApiError> {
    let Query(query) = query?;
    off_loop(move || node.lookup(&query)).await?.map(Json)
}

/// The other nodes, and how it stands with them; `null` without `[peers]`.
#[utoipa::path(get, path = "/v1/peers", responses((status = 200, body = Option<PeersStatus>)))]
pub(crate) async fn peers(State(node): State<SharedNode>) -> Result<Json<Option<PeersStatus>>, ApiError> {
    off_loop(move || node.peers()).await?.map(Json)
}

/// The frames between this node and its peers from now on, one JSON object a line, until the reader leaves.
#[utoipa::path(get, path = "/v1/peers/frames", params(FramesQuery),
    responses((status = 200, body = FrameSeen, content_type = "application/x-ndjson"), (status = 404, body = ApiError)))]
pub(crate) async fn frames(
    State(node): State<SharedNode>,
    query: Result<Query<FramesQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query?;
    let frames = node.frames(&query)?;
    let body = axum::body::Body::new(crate::lines::Lines(frames));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// What is known of clients' distances.
#[utoipa::path(get, path = "/v1/proximity", params(ProximityQuery),
    responses((status = 200, body = ProximityShown), (status = 400, body = ApiError)))]
pub(crate) async fn proximity(
    State(node): State<SharedNode>,
    query: Result<Query<ProximityQuery>, QueryRejection>,
) -> Result<Json<ProximityShown>, ApiError> {
    let Query(query) = query?;
    off_loop(move || node.proximity(&query)).await?.map(Json)
}

/// All that is known of clients' distances.
#[utoipa::path(get, path = "/v1/proximity/export", responses((status = 200, body = Vec<ProximityPoint>)))]
pub(crate) async fn proximity_export(
    State(node): State<SharedNode>,
) -> Result<Json<Vec<ProximityPoint>>, ApiError> {
    off_loop(move || node.proximity_export()).await?.map(Json)
}

/// Writes a round-trip time that goes before what is measured, or takes it away.
#[utoipa::path(post, path = "/v1/proximity/static", request_body = StaticRequest,
    responses((status = 200, body = StaticResult), (status = 400, body = ApiError), (status = 404, body = ApiError)))]
pub(crate) async fn proximity_set(
    State(node): State<SharedNode>,
    request: Result<Json<StaticRequest>, JsonRejection>,
) -> Result<Json<StaticResult>, ApiError> {
    let Json(request) = request?;
    off_loop(move || node.proximity_set(&request)).await?.map(Json)
}

/// The metrics for Prometheus.
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, body = String, content_type = "application/openmetrics-text")))]
pub(crate) async fn metrics(State(node): State<SharedNode>) -> Result<Response, ApiError> {
    let text = off_loop(move || node.metrics()).await??;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, body = String, content_type = "application/json")))]
pub(crate) async fn openapi() -> Response {
    std::future::ready(
        ([(header::CONTENT_TYPE, "application/json")], crate::openapi::document()).into_response(),
    )
    .await
}

/// Runs a call of the node where it may block. A call that panicked is an error, not the end of the daemon.
async fn off_loop<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(call).await.map_err(|error| ApiError::internal(error.to_string()))
}
