//! A body without an end: one JSON object a line, as they come.

use axum::body::{Bytes, HttpBody};
use http_body::Frame;
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// What comes out of a channel, until it is closed.
pub(crate) struct Lines<T>(pub(crate) mpsc::Receiver<T>);

impl<T: Serialize> HttpBody for Lines<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = ready!(self.0.poll_recv(context));
        Poll::Ready(next.map(|item| {
            let mut line = serde_json::to_vec(&item).unwrap_or_default();
            line.push(b'\n');
            Ok(Frame::data(line.into()))
        }))
    }
}
