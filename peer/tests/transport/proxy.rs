//! Something between two nodes: carries TCP, and UDP when told to, and cuts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{AbortHandle, JoinSet};

/// Carries what comes to its address to another one. Dropped, it cuts everything.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    target: SocketAddr,
    tcp: AbortHandle,
    udp: Option<AbortHandle>,
    tasks: JoinSet<()>,
}

impl Proxy {
    /// A proxy that carries TCP alone: nobody listens to its UDP port.
    pub(crate) async fn tcp_only(target: SocketAddr) -> Self {
        // a UDP socket on the number keeps others from it until it is known to be free for both
        let (listener, udp) = loop {
            let listener = TcpListener::bind("127.0.0.7:0").await.unwrap();
            if let Ok(udp) = UdpSocket::bind(listener.local_addr().unwrap()).await {
                break (listener, udp);
            }
        };
        drop(udp);
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let tcp = tasks.spawn(carry_tcp(listener, target));
        Self { address, target, tcp, udp: None, tasks }
    }

    /// A proxy at the address of one that was there before.
    pub(crate) async fn again(address: SocketAddr, target: SocketAddr) -> Self {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(error) => assert!(std::time::Instant::now() < end, "{address}: {error}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        };
        let mut tasks = JoinSet::new();
        let tcp = tasks.spawn(carry_tcp(listener, target));
        let mut proxy = Self { address, target, tcp, udp: None, tasks };
        proxy.open_udp().await;
        proxy
    }

    /// A proxy that carries UDP, too.
    pub(crate) async fn both(target: SocketAddr) -> Self {
        let mut proxy = Self::tcp_only(target).await;
        proxy.open_udp().await;
        proxy
    }

    pub(crate) async fn open_udp(&mut self) {
        let socket = Arc::new(UdpSocket::bind(self.address).await.unwrap());
        self.udp = Some(self.tasks.spawn(carry_udp(socket, self.target)));
    }

    /// UDP is dropped from now on.
    pub(crate) async fn close_udp(&mut self) {
        if let Some(task) = self.udp.take() {
            task.abort();
            let _ = self.tasks.join_next().await;
        }
    }

    /// TCP connections end, and nobody listens any more.
    pub(crate) fn close_tcp(&self) {
        self.tcp.abort();
    }
}

async fn carry_tcp(listener: TcpListener, target: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((mut from, _)) = listener.accept().await {
        connections.spawn(async move {
            if let Ok(mut to) = TcpStream::connect(target).await {
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            }
        });
    }
}

async fn carry_udp(socket: Arc<UdpSocket>, target: SocketAddr) {
    let mut clients: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut back = JoinSet::new();
    let mut octets = vec![0; 65_535];
    loop {
        // an error here is an ICMP message about an earlier datagram
        let Ok((length, client)) = socket.recv_from(&mut octets).await else { continue };
        let out = match clients.get(&client) {
            Some(out) => out.clone(),
            None => {
                let out = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
                out.connect(target).await.unwrap();
                let (socket, answers) = (socket.clone(), out.clone());
                back.spawn(async move {
                    let mut octets = vec![0; 65_535];
                    loop {
                        let Ok(length) = answers.recv(&mut octets).await else { continue };
                        let _ = socket.send_to(&octets[..length], client).await;
                    }
                });
                clients.insert(client, out.clone());
                out
            }
        };
        let _ = out.send(&octets[..length]).await;
    }
}
