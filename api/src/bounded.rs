//! A listener with a limit: so many connections at once, each closed when nothing moves on it for a while. Somebody who
//! opens connections and says nothing takes no more than these.

use axum::serve::Listener;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at once.
const CONNECTIONS: usize = 256;
/// Longer than the longest request, a reload.
const IDLE: Duration = Duration::from_secs(180);

/// A listener that accepts only while there is room.
pub(crate) struct Bounded<L> {
    inner: L,
    room: Arc<Semaphore>,
}

impl<L> Bounded<L> {
    pub(crate) fn new(inner: L) -> Self {
        Self { inner, room: Arc::new(Semaphore::new(CONNECTIONS)) }
    }
}

impl<L: Listener> Listener for Bounded<L>
where
    L::Io: Unpin,
{
    type Io = Held<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // the semaphore is never closed
        let place = self.room.clone().acquire_owned().await.ok();
        let (io, address) = self.inner.accept().await;
        (Held { io, idle: Box::pin(sleep(IDLE)), _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

/// A connection that holds its place until it ends.
pub(crate) struct Held<T> {
    io: T,
    idle: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<T> Held<T> {
    /// Puts the end off when something moved; ends the connection when nothing did for too long.
    fn watch<R>(&mut self, context: &mut Context<'_>, moved: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if moved.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE);
        } else if self.idle.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        moved
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Held<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.io).poll_read(context, into);
        self.watch(context, moved)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Held<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.io).poll_write(context, from);
        self.watch(context, moved)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn one_more_than_the_limit_waits_for_a_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut bounded = Bounded { inner: listener, room: Arc::new(Semaphore::new(1)) };
        let mut first = TcpStream::connect(address).await.unwrap();
        let _second = TcpStream::connect(address).await.unwrap();
        let (mut held, _) = bounded.accept().await;
        first.write_all(b"x").await.unwrap();
        assert_eq!(held.read_u8().await.unwrap(), b'x');
        assert!(tokio::time::timeout(Duration::from_millis(50), bounded.accept()).await.is_err());
        drop(held);
        assert!(tokio::time::timeout(Duration::from_secs(5), bounded.accept()).await.is_ok());
    }
}
